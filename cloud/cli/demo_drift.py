"""`hybridge demo drift`: cameras drift, the fleet says which, their samples teach, a rollout mends it."""

import asyncio
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.output import Format, Output

if TYPE_CHECKING:
    from cloud.demo.drift.run import Plan
    from cloud.demo.drift.verdict import Row

_SHIFTS = (
    "rotate 20 deg", "blur 1.0", "brightness +60", "contrast x 0.4", "noise 30", "camera fault",
)  # fmt: skip


def drift(
    *,
    shift: Annotated[
        str, typer.Option(help=f"What happens to half of the cameras: {', '.join(_SHIFTS)}.")
    ] = "camera fault",
    models: Annotated[Path, typer.Option(help="Folder with both bundles.")] = Path("models"),
    teacher: Annotated[
        Path | None, typer.Option(help="Another bundle of the cloud's model, to be taught by.")
    ] = None,
    rate: Annotated[float, typer.Option(min=1, max=200, help="Images a second of a camera.")] = 25,
    samples: Annotated[
        int, typer.Option(min=200, help="That must have come back before a model is trained.")
    ] = 800,
    epochs: Annotated[
        int, typer.Option(min=1, max=100, help="Of the training; a loop's own default is 12.")
    ] = 6,
    keep: Annotated[
        Path | None, typer.Option(help="Keep configurations, logs and state here.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Half of four cameras suffer a shift; a drift alarm, a training job and a rollout mend it.

    Registry, worker with its broker, fleet, learning, train worker and four agents, all real, on this
    machine; needs the training packages (`make demo-drift` installs them) and two minutes, more with more --samples or
    --epochs.

    Exit codes: 0 all targets met, 1 one was missed, 2 wrong usage, 130 stopped.
    """
    from cloud.demo.drift.region import CLEAN_LOSS_MAX
    from cloud.demo.drift.run import Plan
    from cloud.demo.drift.verdict import failures

    if shift not in _SHIFTS:
        raise typer.BadParameter(f"--shift {shift!r}: want one of {', '.join(_SHIFTS)}")
    _check_installed()
    with tempfile.TemporaryDirectory(prefix="hybridge-drift-") as temporary:
        folder = Path(temporary) if keep is None else keep.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        plan = Plan(
            models / "fashion-edge",
            teacher or models / "fashion-cloud",
            folder,
            shift,
            rate,
            samples,
            epochs,
        )
        try:
            row = asyncio.run(_run(plan, output))
        except (KeyboardInterrupt, asyncio.CancelledError):
            sys.stderr.write("interrupted; everything that the demo had started is ended\n")
            raise typer.Exit(130) from None
    missed = failures(row, CLEAN_LOSS_MAX)
    _print(row, missed, output)
    raise typer.Exit(1 if missed else 0)


def _check_installed() -> None:
    from importlib.util import find_spec

    from shared.errors import Unknown

    if missing := [name for name in ("torch", "ignite", "scipy") if find_spec(name) is None]:
        raise Unknown(
            f"{', '.join(missing)}: not installed; `make demo-drift` does it, or pip install "
            "'hybridge[train]'"
        )


async def _run(plan: "Plan", output: Format) -> "Row":
    from cloud.demo.drift.run import run

    this = asyncio.current_task()
    assert this is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    return await run(plan, _teller(output))


def _teller(output: Format) -> Callable[[str], None]:
    """Lines with their time on stderr; none for programs."""
    began = time.monotonic()

    def say(words: str) -> None:
        if output is Format.TABLE:
            sys.stderr.write(f"{time.monotonic() - began:6.1f} s  {words}\n")

    return say


def _print(row: "Row", missed: list[str], output: Format) -> None:
    from cloud.cli.output import show

    tree = asdict(row) | {"regained": row.regained, "clean_loss": row.clean_loss, "missed": missed}
    if output is Format.JSON:
        print(json.dumps(tree, indent=1))
        return
    after = f"{row.after:.1%} after; {row.regained:.0%} of what was lost"
    lines = [
        f"{row.kind}: the alarm named the group after {row.delay_samples} of its samples",
        f"edge model alone, on images that no camera saw: {row.before:.1%} under the shift before, {after}",
        f"on clean images {row.clean_before:.1%} before, {row.clean_after:.1%} after",
        f"{row.data_rows} samples taught it, escalated and audited ones",
        f"from the alarm to the version on the cameras {row.cycle_s:.0f} s",
        *(f"missed: {one}" for one in missed),
    ]
    show(tree, output, lambda out: out.print("\n".join(lines), soft_wrap=True))
