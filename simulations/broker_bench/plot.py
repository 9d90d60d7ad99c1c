"""The ratios as one figure: right of 1 the embedded broker is better, whatever is measured."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

from simulations.broker_bench.report import Row

mpl.use("Agg")


def draw(found: Sequence[Row], file: Path) -> None:
    """Draw the rows that have a target; memory's and latency's ratios are turned over."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  after the backend is chosen

    wanted = [row for row in found if row.rule is not None][::-1]
    better = [row.ratio if row.rule == ">=" else 1 / max(row.ratio, 1e-9) for row in wanted]
    figure, axes = plt.subplots(figsize=(8, 1 + 0.35 * len(wanted)), layout="constrained")
    axes.barh(
        [row.what for row in wanted], better,
        color=["tab:blue" if row.met else "tab:red" for row in wanted],
    )  # fmt: skip
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("embedded over Mosquitto: over 1 is better; red misses its target")
    figure.savefig(file, dpi=150)
    plt.close(figure)
