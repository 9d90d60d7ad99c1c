"""The generated block of BENCHMARKS.md. Pure."""

from collections.abc import Iterator
from typing import Final

from cloud.capacity.load.outcomes import Phase
from simulations.serve_bench.results import (
    Cell,
    Cells,
    Mixed,
    MqttPath,
    MqttRun,
    Overload,
    Results,
    Subject,
)
from simulations.serve_bench.verdicts import Verdict, verdicts

BEGIN: Final = "<!-- serve-bench: written by `make bench-serve` -->"
END: Final = "<!-- /serve-bench -->"
LATE_MS: Final = 3.0
DISTURBED_CORES: Final = 0.15
"""Processors' time that others had during a run, above which its cell has a star."""


def replaced(text: str, results: Results, picture: str = "") -> str:
    """Give `text` with the block between its markers written anew; `picture`: the plot's path.

    Raises:
        ValueError: the markers are not there, once each and in order.

    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"it needs the markers {BEGIN} and {END}, once each")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{block(results, picture)}\n{END}{after}"


def block(results: Results, picture: str = "") -> str:
    """Give the Markdown for everything that is known."""
    m = results.machine
    versions = ", ".join(f"{name} {version}" for name, version in m.versions.items())
    where = f"{m.cpu}, {m.cores} cores, {m.memory_gb:g} GiB, Linux {m.kernel}"
    parts = [f"Machine: {where}; Python {m.python}, {versions}. Server and client share it."]
    found = verdicts(results)
    if found:
        parts += ["### Targets", "\n".join(_targets(found))]
    if results.cells is not None:
        parts += ["### Closed loop", "\n".join(_cells(results.cells))]
        parts += [f"![Requests a second by concurrency]({picture})"] if picture else []
    if results.mqtt is not None:
        parts += ["### MQTT path", "\n".join(_mqtt(results.mqtt))]
    if results.overload is not None:
        parts += ["### Overload", "\n".join(_overload(results.overload))]
    if results.mixed is not None:
        parts += ["### Mixed load", "\n".join(_mixed(results.mixed))]
    parts += [f"Not run: {part}: {one_line(why)}" for part, why in results.failed.items()]
    return "\n\n".join(parts)


def one_line(text: str, length_max: int = 240) -> str:
    """Fit what a program said into a line of Markdown: how it begins and how it ends."""
    joined = " ".join(text.replace("|", "/").replace("`", "'").split())
    if len(joined) <= length_max:
        return joined
    head = length_max // 3
    return f"{joined[:head]} … {joined[head + 3 - length_max :]}"


def _targets(found: list[Verdict]) -> Iterator[str]:
    yield "| what | measured | beside | ratio | target | |"
    yield "|---|---|---|---|---|---|"
    for one in found:
        yield (
            f"| {one.what} | {number(one.value)} {one.unit} | {number(one.reference)} {one.unit} | "
            f"{one.ratio:.2f} | {one.rule} {one.target:g} | {'met' if one.met else '**missed**'} |"
        )


def _cells(cells: Cells) -> Iterator[str]:
    levels = cells.concurrencies
    yield (
        f"{cells.measured_at}. Medians of runs of {cells.seconds} s: requests/s, then p50 / p99 in "
        "ms, by concurrency."
    )
    yield ""
    heads = " | ".join(f"at {level}" for level in levels)
    yield f"| server | version | {heads} | CPU us/request | memory MB | start s |"
    yield "|---" * (len(levels) + 5) + "|"
    for subject in cells.subjects:
        found = [cells.cell(subject.name, level) for level in levels]
        shown = " | ".join("" if cell is None else _cell(cell) for cell in found)
        yield (
            f"| {subject.title} | {subject.version} | {shown} | {_cpu(subject, cells)} | "
            f"{subject.pss_mb:.0f} | {subject.started_s:.1f} |"
        )
    yield ""
    yield (
        "CPU at 64, or the highest below; memory is PSS of all its processes at the end. "
        f"`*`: others had over {DISTURBED_CORES:g} of a processor meanwhile; `!`: some requests failed."
    )
    for name, why in cells.absent.items():
        yield ""
        yield f"Not run: {name}: {one_line(why)}"


def _cell(cell: Cell) -> str:
    marks = "*" if cell.median("other_cores") > DISTURBED_CORES else ""
    marks += "!" if any(run.failed for run in cell.runs) else ""
    return (
        f"{cell.median('per_second'):,.0f}{marks}; {number(cell.median('p50_ms'))} / "
        f"{number(cell.median('p99_ms'))}"
    )


def _cpu(subject: Subject, cells: Cells) -> str:
    for level in reversed([level for level in cells.concurrencies if level <= 64]):
        if (cell := cells.cell(subject.name, level)) is not None:
            return number(cell.median("server_cpu_us"))
    return ""


def _mqtt(found: MqttPath) -> Iterator[str]:
    yield (
        f"{found.measured_at}. {found.devices} devices; p50 and p99 at {found.paced_per_second}/s. "
        "The bare broker's: the same messages, echoed by a subscriber that does nothing else."
    )
    yield ""
    yield "| | messages/s | p50 ms | p99 ms |"
    yield "|---|---|---|---|"
    for title, runs in (("escalations, answered", found.worker), ("bare broker", found.bare)):
        yield f"| {title} | {_middle(runs, 'per_second')} | {_middle(runs, 'p50_ms')} | {_middle(runs, 'p99_ms')} |"


def _middle(runs: tuple[MqttRun, ...], name: str) -> str:
    values: list[float] = sorted(getattr(run, name) for run in runs)
    return number(values[len(values) // 2])


def _overload(found: Overload) -> Iterator[str]:
    yield (
        f"{found.measured_at}. Open loop, Poisson arrivals, latency from the time a request was due. "
        f"Model {found.model}; one server process on one core, the load generator on another. "
        f"Capacity {found.capacity_per_second:,.0f}/s."
    )
    yield ""
    yield from _phases((("at 80%", found.at_80), ("at 200%", found.at_200)))
    yield ""
    yield (
        f"Recovered {found.recovered_s:.2f} s after the load fell back to 80%. Resident memory "
        f"{min(found.resident_mb):.0f} to {max(found.resident_mb):.0f} MiB, "
        f"{found.growth_mb_per_minute:+.1f} MiB a minute."
    )


def _mixed(found: Mixed) -> Iterator[str]:
    yield (
        f"{found.measured_at}. Online traffic at {found.online_share:.0%} of capacity "
        f"({found.online_per_second:,.0f}/s), alone and beside `hybridge batch run`, in turn; the "
        f"batch did {found.batch_per_second:,.0f} samples/s meanwhile."
    )
    yield ""
    named = [(f"alone, {at}", one) for at, one in enumerate(found.alone, 1)]
    named += [(f"beside a batch, {at}", one) for at, one in enumerate(found.beside, 1)]
    yield from _phases(named)


def _phases(named: "tuple[tuple[str, Phase], ...] | list[tuple[str, Phase]]") -> Iterator[str]:
    yield "| | asked/s | answered | p50 / p99 ms | refused | p50 / p99 ms | failed | generator's lag, p99 ms |"
    yield "|---|---|---|---|---|---|---|---|"
    for title, one in named:
        yield (
            f"| {title} | {one.asked_per_second:,.0f} | {one.answered:,} | "
            f"{number(one.answered_p50_ms)} / {number(one.answered_p99_ms)} | {one.refused:,} | "
            f"{number(one.refused_p50_ms)} / {number(one.refused_p99_ms)} | {one.failed:,} | "
            f"{number(one.lag_p99_ms)}{'*' if one.lag_p99_ms > LATE_MS else ''} |"
        )
    if any(one.lag_p99_ms > LATE_MS for _, one in named):
        yield ""
        yield "`*`: the generator itself was late, so others had its processor; run it again."


def number(value: float) -> str:
    """Three digits or more."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
