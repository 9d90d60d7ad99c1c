"""`hybridge loop watch`: a cycle's arrows as they go by, where a person sees them; else a line per
change.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Self

import typer

from cloud.cli.learning_session import KeyFile, Learning, ask
from cloud.cli.loop_arguments import ModelName
from cloud.cli.output import Format, Output, console, moment, print_tree, say, tree_of
from cloud.cli.registry_session import Code

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from cloud.learning.client.client import LearningClient
    from cloud.learning.documents import Arrow, Cycle

_AT_MOST_EVERY_S: Final = 1.0  # a process that answers at once is not asked without end
_PATIENCE_S: Final = 15 * 60.0
"""A process that is away is asked again for so long: its restart ends no watch."""
_FRAMES_PER_S: Final = 2.0


class _Seen(Protocol):
    def show(self, cycle: "Cycle", asks: "frozenset[Arrow]") -> None: ...

    def lost(self, why: str) -> None: ...


def watch(
    name: ModelName, *, learning: Learning = None, key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Watch the running cycle: its arrows, what it waits for, and the command that gives it. Without
    a terminal, a line for each change.

    Exit codes: 0 it is done, 1 it was refused, failed or was stopped, 2 wrong usage, 3 the learning
    process cannot be reached, 4 no cycle runs, 130 detached with Ctrl-C: it goes on.
    """
    watch_cycle(learning, key_file, name, output)


def watch_cycle(
    learning: list[str] | None, key_file: Path | None, model: str, output: Format
) -> None:
    """As `watch`."""
    from cloud.learning.documents import Phase

    try:
        with _seen(output) as seen:
            ended = ask(
                learning, key_file, lambda asked: _until_over(asked, model, seen), stopped=None,
                loop=model,
            )  # fmt: skip
    except typer.Exit as left:
        if left.exit_code == Code.STOPPED:
            say(f"detached: the loop goes on; come back: hybridge loop watch {model}")
        raise
    if ended.phase is not Phase.DONE:
        raise typer.Exit(Code.REFUSED)


async def _until_over(learning: "LearningClient", model: str, seen: _Seen) -> "Cycle":
    from cloud.cli.loop_drawing import is_over
    from cloud.cli.loop_running import running
    from shared.errors import Unavailable

    found = await learning.loops.get(model)
    asks, cycle = found.settings.asks, running(found)
    loop = asyncio.get_running_loop()
    answered = loop.time()
    seen.show(cycle, asks)
    while not is_over(cycle):
        began = loop.time()
        try:
            cycle = await learning.loops.changed(cycle.id, cycle.revision)
        except Unavailable as error:
            if loop.time() - answered > _PATIENCE_S:
                raise
            seen.lost(str(error))
        else:
            answered = loop.time()
            seen.show(cycle, asks)
        if not is_over(cycle) and (early := began + _AT_MOST_EVERY_S - loop.time()) > 0:
            await asyncio.sleep(early)
    return cycle


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

    def show(self, cycle: "Cycle", _: "frozenset[Arrow]") -> None:
        from cloud.cli.loop_drawing import summary

        if self._is_lost:
            say("the learning process answers again")
            self._is_lost = False
        now = summary(cycle) if self._output is Format.TABLE else tree_of(cycle)
        if now == self._last:
            return
        self._last = now
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

        self._shown: tuple[Cycle, frozenset[Arrow]] | None = None
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

    def show(self, cycle: "Cycle", asks: "frozenset[Arrow]") -> None:
        self._shown, self._note = (cycle, asks), "Ctrl-C detaches; the loop goes on"
        self._live.refresh()

    def lost(self, why: str) -> None:
        self._note = f"{why}; asking again"
        self._live.refresh()

    def _draw(self) -> "RenderableType":
        from cloud.cli.loop_drawing import draw, marks_for

        if self._shown is None:
            return self._note
        cycle, asks = self._shown
        return draw(cycle, asks, time.time(), self._note, marks_for(self._out.encoding))
