"""`hybridge loop set|begin|go|stop|delete`: a person's word on a loop and its cycle."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cloud.cli.fleet_confirm import confirm
from cloud.cli.fleet_session import Yes
from cloud.cli.learning_session import KeyFile, Learning, ask
from cloud.cli.loop_arguments import Comment, Follow, ModelName
from cloud.cli.output import Format, Output, cell, say, show
from cloud.cli.registry_session import DryRun, ending

if TYPE_CHECKING:
    from cloud.learning.client.client import LearningClient
    from cloud.learning.documents import Cycle, Loop, LoopSettings


def set_loop(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The loop's settings.")],
    *,
    learning: Learning = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Make a loop, or change its settings; what the file does not name is as by default. The running
    cycle goes on with what it began with.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached, 4 somebody
    changed it at the same time.
    """
    with ending():
        settings = _settings(file)

    async def work(asked: "LearningClient") -> "tuple[Loop | None, Loop | None]":
        known = {one.settings.model: one for one in await asked.loops.all()}
        before = known.get(settings.model)
        if dry_run or (before is not None and before.settings == settings):
            return before, None
        revision = 0 if before is None else before.revision
        return before, await asked.loops.put(settings, revision)

    before, after = ask(learning, key_file, work)
    changes = _changes(None if before is None else before.settings, settings)
    if after is None and not dry_run:
        show(before or {}, output, lambda out: out.print(f"{settings.model}: nothing to change"))
        return
    verb = "make" if before is None else "change"
    if after is None:
        tree = {"dry_run": True, "would": verb, "loop": settings.model, "changes": changes}
        show(tree, output, lambda out: out.print(cell(_line(f"would {verb}", settings, changes))))
        return
    done = "made" if before is None else "changed"
    show(after, output, lambda out: out.print(cell(_line(done, settings, changes)), soft_wrap=True))


def begin(
    name: ModelName, *, comment: Comment, follow: Follow = False, learning: Learning = None,
    key_file: KeyFile = None, dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Begin a cycle now, whatever the triggers say.

    Exit codes: 0 begun (with -w: done), 1 refused, or (with -w) not done, 2 wrong usage, 3 the
    learning process cannot be reached, 4 a cycle runs already, 130 detached with Ctrl-C.
    """

    async def work(asked: "LearningClient") -> "Loop | Cycle":
        if dry_run:
            return await asked.loops.get(name)
        return await asked.loops.begin(name, comment)

    found = ask(learning, key_file, work, loop=name)
    from cloud.cli.loop_running import check_none_runs
    from cloud.learning.documents import Loop

    if isinstance(found, Loop):
        with ending():
            check_none_runs(found)
        tree = {"dry_run": True, "would": "begin", "loop": name}
        show(tree, output, lambda out: out.print(f"would begin a cycle of {name}"))
        return
    _end(found, learning, key_file, output, follow=follow)


def go(
    name: ModelName, *, comment: Comment, follow: Follow = False, learning: Learning = None,
    key_file: KeyFile = None, dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Say go to the step that the running cycle asks for.

    Exit codes: 0 done (with -w: the cycle is done), 1 refused, or (with -w) not done, 2 wrong usage,
    3 the learning process cannot be reached, 4 it asks for nothing, or somebody was first, 130
    detached with Ctrl-C.
    """
    _decide("go", name, comment, learning, key_file, output, follow=follow, dry_run=dry_run)


def stop(
    name: ModelName, *, comment: Comment, learning: Learning = None, key_file: KeyFile = None,
    dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Stop the running cycle for good: its job is cancelled, a candidate and a rollout stay as they
    are. One that ends, and waits for who is away to reject or undo something, ends without that.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached, 4 no cycle
    runs, or somebody was first.
    """
    _decide("stop", name, comment, learning, key_file, output, follow=False, dry_run=dry_run)


def delete(
    name: ModelName, *, yes: Yes = False, learning: Learning = None, key_file: KeyFile = None,
    dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Delete a loop; its cycles, models and rollouts stay. A cycle that another version of the learning
    process wrote, so that this one cannot read it, is given up; a job or rollout of it goes on.

    Exit codes: 0 done, 1 refused, or not confirmed, 2 wrong usage, 3 the learning process cannot be
    reached, 4 a cycle runs, or somebody changed it at the same time.
    """
    found = ask(learning, key_file, lambda asked: asked.loops.get(name), loop=name)
    if dry_run:
        tree = {"dry_run": True, "would": "delete", "loop": name}
        show(tree, output, lambda out: out.print(f"would delete the loop of {name}"))
        return
    confirm(f"Delete the loop of {name}?", yes=yes)
    ask(learning, key_file, lambda asked: asked.loops.delete(name, found.revision))
    show({"deleted": name}, output, lambda out: out.print(f"{name} has no loop any more"))


def _decide(
    verb: Literal["go", "stop"], name: str, comment: str, learning: list[str] | None,
    key_file: Path | None, output: Format, *, follow: bool, dry_run: bool,
) -> None:  # fmt: skip
    from cloud.cli.loop_drawing import phase_text
    from cloud.cli.loop_running import running

    async def work(asked: "LearningClient") -> "Cycle":
        from cloud.learning.documents import Decision
        from shared.errors import Conflict

        seen = running(await asked.loops.get(name))
        if verb == "go" and seen.asks is None:
            waits = f"; it waits for {seen.waits_for}" if seen.waits_for else ""
            raise Conflict(f"{seen.id} is {phase_text(seen)} and asks for nothing{waits}")
        if dry_run:
            return seen
        return await asked.loops.decide(
            seen.id, Decision(verb=verb, comment=comment), seen.revision
        )

    found = ask(learning, key_file, work, loop=name)
    if dry_run:
        tree = {"dry_run": True, "would": verb, "cycle": found.id, "phase": str(found.phase)}
        line = cell(f"would say {verb} to {found.id}, which is {phase_text(found)}")
        show(tree, output, lambda out: out.print(line, soft_wrap=True))
        return
    _end(found, learning, key_file, output, follow=follow)


def _end(
    cycle: "Cycle", learning: list[str] | None, key_file: Path | None, output: Format, *,
    follow: bool,
) -> None:  # fmt: skip
    if follow:
        from cloud.cli.loop_watching import watch_cycle

        watch_cycle(learning, key_file, cycle.model, output)
        return
    from cloud.cli.loop_drawing import is_over, summary

    show(cycle, output, lambda out: out.print(summary(cycle), soft_wrap=True))
    if not is_over(cycle):
        say(f"watch it: hybridge loop watch {cycle.model}")


def _settings(file: Path) -> "LoopSettings":
    from cloud.cli.learning_file import checked
    from cloud.learning.documents import LoopSettings
    from shared.config import read_toml

    return checked(LoopSettings, read_toml(file), str(file))


def _changes(before: "LoopSettings | None", after: "LoopSettings") -> dict[str, object]:
    """Top members that differ, as they will be."""
    tree = after.model_dump(mode="json")
    known = {} if before is None else before.model_dump(mode="json")
    same = before is not None and before.asks == after.asks
    return {
        name: value for name, value in tree.items()
        if known.get(name) != value and not (name == "asks" and same)
    }  # fmt: skip


def _line(verb: str, settings: "LoopSettings", changes: dict[str, object]) -> str:
    names = ", ".join(name for name in changes if name != "model")
    return f"{verb} the loop of {settings.model}: {names or 'nothing differs'}"
