"""Requests a second by concurrency, one line a server."""

from pathlib import Path

import matplotlib as mpl

from simulations.serve_bench.results import Cells

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "hybridge"  # the same figures give the same file


def draw(cells: Cells, file: Path) -> None:
    """Draw on logarithmic axes: these servers differ by a factor of a hundred."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  after the backend is chosen

    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    colours = mpl.colormaps["tab20"]
    axes.set_prop_cycle(color=[colours(at) for at in (*range(0, 20, 2), *range(1, 20, 2))])
    for subject in cells.subjects:
        found = [cell for cell in cells.cells if cell.subject == subject.name]
        axes.plot(
            [cell.concurrency for cell in found],
            [max(1.0, cell.median("per_second")) for cell in found],
            label=subject.title.strip("*"), marker="o", markersize=3,
            linewidth=2.5 if subject.is_ours else 1.2,
            linestyle=":" if subject.is_floor else "-",
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(cells.concurrencies, [str(level) for level in cells.concurrencies])
    axes.set_xlabel("requests at once")
    axes.set_ylabel("requests a second")
    axes.grid(visible=True, which="both", alpha=0.2)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    plt.close(figure)
