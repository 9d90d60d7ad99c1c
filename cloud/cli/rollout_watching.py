"""Watching a rollout: bars and gauges that move where a person sees them, else a line per change."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Self

import typer

from cloud.cli.fleet_session import ask
from cloud.cli.output import Format, console, moment, print_tree, say, tree_of
from cloud.cli.registry_session import Code

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from cloud.fleet.client.client import FleetClient
    from cloud.rollouts.documents import RolloutView

_AT_MOST_EVERY_S: Final = 1.0  # a fleet that answers at once is not asked without end
_PATIENCE_S: Final = 15 * 60.0
"""A fleet that is away is asked again for so long: its restart ends no watch."""
_FRAMES_PER_S: Final = 2.0
_VIEWS_MAX: Final = 2000


class _Seen(Protocol):
    def show(self, view: "RolloutView") -> None: ...

    def lost(self, why: str) -> None: ...


def watch(
    fleet: list[str] | None,
    key_file: Path | None,
    rollout: str,
    output: Format,
    views: "list[tuple[float, RolloutView]] | None" = None,
) -> "RolloutView":
    """Until it is over; then as it is. Ctrl-C ends the command, says how to come back: code 130.

    `views`: gets what was seen, and when in Unix seconds; every second one is dropped when it is long.
    """
    try:
        with _seen(output) as seen:
            return ask(
                fleet, key_file, lambda asked: _until_over(asked, rollout, seen, [] if views is None else views),
                stopped=None, rollout=rollout,
            )  # fmt: skip
    except typer.Exit as ended:
        if ended.exit_code == Code.STOPPED:
            say(f"detached: the rollout goes on; come back: hybridge rollout status {rollout} -w")
        raise


async def _until_over(
    fleet: "FleetClient", rollout: str, seen: _Seen, views: "list[tuple[float, RolloutView]]"
) -> "RolloutView":
    from cloud.cli.rollout_drawing import is_over
    from shared.errors import Unavailable

    loop = asyncio.get_running_loop()
    mark: str | None = None
    answered = loop.time()
    while True:
        began = loop.time()
        try:
            view, mark = await fleet.rollouts.changed(rollout, mark)
        except Unavailable as error:
            if loop.time() - answered > _PATIENCE_S:
                raise
            seen.lost(str(error))
        else:
            answered = loop.time()
            seen.show(view)
            views.append((time.time(), view))
            if len(views) > _VIEWS_MAX:
                del views[1::2]
            if is_over(view):
                return view
        if (early := began + _AT_MOST_EVERY_S - loop.time()) > 0:
            await asyncio.sleep(early)


@contextlib.contextmanager
def _seen(output: Format) -> Iterator[_Seen]:
    out = console()
    if output is Format.TABLE and out.is_terminal:
        with _Drawn(out) as drawn:
            yield drawn
        return
    yield _Lines(output)


class _Lines:
    """Without a person at a terminal: a line of text, or a document, each time that it changed."""

    def __init__(self, output: Format) -> None:
        self._output = output
        self._last: object = None
        self._is_lost = False

    def show(self, view: "RolloutView") -> None:
        from cloud.cli.rollout_drawing import change_in, summary

        if self._is_lost:
            say("the fleet answers again")
            self._is_lost = False
        now = summary(view) if self._output is Format.TABLE else tree_of(view)
        last = change_in(view) if self._output is Format.TABLE else now
        if last == self._last:
            return
        self._last = last
        match self._output:
            case Format.TABLE:
                typer.echo(f"{moment(time.time())} {now}")
            case Format.JSON:
                typer.echo(json.dumps(now))
            case Format.YAML:
                typer.echo("---")
                print_tree(now, Format.YAML)
        if sys.stdout is not None:
            sys.stdout.flush()

    def lost(self, why: str) -> None:
        if not self._is_lost:
            say(f"{why}; asking again")
        self._is_lost = True


class _Drawn:
    """At a terminal: one drawing, which moves; the last one stays."""

    def __init__(self, out: "Console") -> None:
        from rich.live import Live

        self._view: RolloutView | None = None
        self._note = ""
        self._out = out
        self._live = Live(
            get_renderable=self._draw, console=out, refresh_per_second=_FRAMES_PER_S,
            vertical_overflow="visible",
        )  # fmt: skip

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._note = ""
        self._live.stop()

    def show(self, view: "RolloutView") -> None:
        self._view, self._note = view, "Ctrl-C detaches; the rollout goes on"
        self._live.refresh()

    def lost(self, why: str) -> None:
        self._note = f"{why}; asking again"
        self._live.refresh()

    def _draw(self) -> "RenderableType":
        from cloud.cli.rollout_drawing import draw, look_for

        if self._view is None:
            return self._note
        look = look_for(self._out.width, self._out.encoding)
        return draw(self._view, time.time(), look, self._note)
