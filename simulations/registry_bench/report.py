"""The figures as Markdown, and which targets they meet."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from simulations.registry_bench.catalog import Operations
from simulations.registry_bench.deltas import Packed
from simulations.registry_bench.replication import Lag
from simulations.registry_bench.transfer import Transfer

BEGIN: Final = "<!-- registry-bench: written by `make bench-registry` -->"
END: Final = "<!-- /registry-bench -->"
COPY_MIN: Final = 0.7
"""Of a plain HTTP copy's speed."""
PUBLISHED_MAX: Final = 0.6
"""Share of the whole file over which no delta is published."""


@dataclass(frozen=True, slots=True)
class Results:
    transfers: Sequence[Transfer]
    deltas: Sequence[Packed]
    operations: Sequence[Operations]
    lag: Lag | None


def missed(results: Results) -> list[str]:
    """What fails the bench."""
    found = [
        f"{one.what}: {one.ratio:.2f} x a plain copy, target {COPY_MIN}"
        for one in results.transfers
        if one.ratio < COPY_MIN
    ]
    for change in dict.fromkeys(one.change for one in results.deltas):
        ways = {one.way: one for one in results.deltas if one.change == change}
        if "bsdiff4" in ways and ways["hybridge"].share < PUBLISHED_MAX and (
            ways["hybridge"].bytes > ways["bsdiff4"].bytes
        ):  # fmt: skip
            found.append(f"delta of {change}: longer than bsdiff4's")
    return found


def markdown(results: Results) -> str:
    """The tables of all that was measured."""
    parts = []
    if results.transfers:
        lines = [
            "| 200 MB bundle | plain HTTP copy | registry | ratio | target |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {one.what} | {one.plain_s:.2f} s | {one.registry_s:.2f} s | {one.ratio:.2f} | "
            f">= {COPY_MIN}{'' if one.ratio >= COPY_MIN else ', missed'} |"
            for one in results.transfers
        ]
        parts.append("\n".join(lines))
    if results.deltas:
        parts.append("\n".join(_deltas(results.deltas)))
    if results.operations:
        parts.append("\n".join(_operations(results.operations)))
    if results.lag is not None:
        lag = results.lag
        parts.append(
            f"Replica: {lag.changes:,} changes by {lag.writers} callers at {lag.per_s:.0f}/s; lag p50 "
            f"{lag.p50_ms:.0f} ms, p99 {lag.p99_ms:.0f} ms, longest {lag.max_ms:.0f} ms; all there "
            f"{lag.behind_s:.2f} s after the last. An empty replica had all of them in "
            f"{lag.fresh_s:.1f} s."
        )
    return "\n\n".join(parts)


def replaced(text: str, results: Results) -> str:
    """Give `text` with the block between its markers written anew.

    Raises:
        ValueError: the markers are not there, once each and in order.

    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"it needs the markers {BEGIN} and {END}, once each")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{markdown(results)}\n{END}{after}"


def _deltas(packed: Sequence[Packed]) -> list[str]:
    ways = list(dict.fromkeys(one.way for one in packed))
    lines = [
        f"| int8 model of 10 MB, share of the file (encode s) | {' | '.join(ways)} |",
        "|---" * (len(ways) + 1) + "|",
    ]
    for change in dict.fromkeys(one.change for one in packed):
        cells = {
            one.way: f"{one.share:.1%} ({one.encode_s:.2f})"
            for one in packed
            if one.change == change
        }
        lines.append(f"| {change} | {' | '.join(cells[way] for way in ways)} |")
    return lines


def _operations(operations: Sequence[Operations]) -> list[str]:
    databases = list(dict.fromkeys(one.database for one in operations))
    lines = [
        f"| catalog operations/s (callers at once) | {' | '.join(databases)} |",
        "|---" * (len(databases) + 1) + "|",
    ]
    rates = {(one.what, one.threads, one.database): one.per_s for one in operations}
    for what, threads in dict.fromkeys((one.what, one.threads) for one in operations):
        cells = (f"{rates[what, threads, database]:,.0f}" for database in databases)
        lines.append(f"| {what} ({threads}) | {' | '.join(cells)} |")
    return lines
