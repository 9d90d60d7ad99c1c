"""The figures as Markdown, and which targets they meet."""

from dataclasses import dataclass
from typing import Final

from simulations.fleet_bench.decisions import Decisions
from simulations.fleet_bench.rollback import Rollback
from simulations.fleet_bench.telemetry import Telemetry

BEGIN: Final = "<!-- fleet-bench: written by `make bench-fleet` -->"
END: Final = "<!-- /fleet-bench -->"
SIMULATED_S_MAX: Final = 60.0
DEVICES_SIMULATED: Final = 100_000


@dataclass(frozen=True, slots=True)
class Results:
    devices: int
    connect_s: float
    bytes_each: float
    """Of the fleet's resident memory."""
    telemetry: Telemetry
    decisions: Decisions
    rollback: Rollback
    simulated_s: float | None
    """None: not asked for."""


def missed(results: Results) -> list[str]:
    """What fails the bench."""
    took_s = results.simulated_s
    if took_s is not None and took_s >= SIMULATED_S_MAX:
        return [
            f"{DEVICES_SIMULATED:,} simulated devices: {took_s:.0f} s, target {SIMULATED_S_MAX:g}"
        ]
    return []


def markdown(results: Results) -> str:
    one, back = results.telemetry, results.rollback
    rows = [
        (
            "telemetry taken",
            (
                f"{one.received_per_s:,.0f} reports/s of {one.report_bytes:,} bytes received, "
                f"{one.stored_per_s:,.0f}/s of them stored, the others replaced by newer ones "
                f"of their device; received {one.ratio:.2f} of a subscriber that only "
                f"acknowledges ({one.floor_per_s:,.0f}/s)"
            ),
        ),
        (
            "as devices report (every 30 s)",
            (
                f"{results.devices / 30:.0f} reports/s: "
                f"{results.devices / 30 / one.stored_per_s:.1%} of what is stored"
            ),
        ),
        ("rollout events decided", f"{results.decisions.per_s:,.0f}/s, the machine alone"),
        ("memory of the control process", f"{results.bytes_each / 1e3:.1f} KB a device"),
        ("connected and first reports stored", f"{results.connect_s:.1f} s"),
        ("a version to all, without a pause", f"{back.forward_s:.1f} s"),
        (
            "undo to the last device back",
            f"{back.back_s:.1f} s; the fleet knows after {back.known_s:.1f} s",
        ),
    ]
    if results.simulated_s is not None:
        met = "" if results.simulated_s < SIMULATED_S_MAX else ", missed"
        words = f"{results.simulated_s:.0f} s (target < {SIMULATED_S_MAX:g} s{met})"
        rows.append((f"{DEVICES_SIMULATED:,} devices on virtual time", words))
    head = [f"| {results.devices:,} connected devices, one control process | |", "|---|---|"]
    return "\n".join([*head, *(f"| {what} | {figure} |" for what, figure in rows)])


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
