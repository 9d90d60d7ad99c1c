"""Side by side: what was recorded, and what would have been."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from shared.errors import Malformed
from shared.fleet.telemetry import CONFIDENCE_BINS
from simulations.fleet.run import simulate
from simulations.fleet.scenarios import scenario
from simulations.fleet.what_if.gate import Gated, changed, gate
from simulations.fleet.what_if.log import Log, read_log
from simulations.fleet.what_if.threshold import Figures, as_recorded, at

GATES = ("criteria", "risk", "samples_min", "worse", "miss_risk")
"""Members of a rollout's spec that change what is decided, and not which devices move when."""


def policy_of(texts: Sequence[str]) -> dict[str, object]:
    """`NAME=VALUE`, the value as JSON or as it stands; several numbers are a list.

    Raises `Malformed`.
    """
    found: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise Malformed(f"--policy {text[:80]!r}: want NAME=VALUE, as canary=0.1")
        parts = [_value(part) for part in value.split(",")]
        several = len(parts) > 1 or name in ("waves", "approvals", "window")
        found[name] = parts if several else parts[0]
    return found


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def print_replay(
    path: Path,
    thresholds: Sequence[float],
    criteria: Sequence[str],
    policy: Sequence[str],
    cloud_ms: float,
    *,
    as_json: bool,
) -> None:
    """Raises `Malformed` for a log that is none, or lacks what was asked about."""
    log, changes = read_log(path), policy_of(policy)
    gates: dict[str, object] = {n: v for n, v in changes.items() if n in GATES}
    if criteria:
        gates["criteria"] = list(criteria)
    moves = {name: value for name, value in changes.items() if name not in GATES}
    figures = {
        version: [
            as_recorded(total, log.bytes_per_message, cloud_ms),
            *(at(total, one, log.bytes_per_message, cloud_ms) for one in thresholds),
        ]
        for version, total in log.versions.items()
    }
    gated = [gate(path, {}), gate(path, gates)] if gates else []
    again = _again(log, {**gates, **moves}) if moves else []
    if as_json:
        found = {
            "confidence_resolution": 1 / CONFIDENCE_BINS,
            "thresholds": {v: [asdict(one) for one in rows] for v, rows in figures.items()},
            "gate": [asdict(one) for one in gated],
            "policy": again,
        }
        print(json.dumps(found, indent=2))
        return
    _print_figures(figures)
    if gated:
        _print_gates(gated)
    if again:
        _print_columns(("", "as it was", "instead"), again)


def _again(log: Log, changes: Mapping[str, object]) -> list[dict[str, object]]:
    """Which devices move when changes what they do, so it has to be simulated again."""
    if log.simulated is None:
        raise Malformed(
            f"{', '.join(changes)}: such a policy changes what devices do, which a log of real ones "
            f"cannot tell; on real logs --criterion, --threshold and {', '.join(GATES)} work"
        )
    name, seed, devices = (log.simulated.get(one) for one in ("scenario", "seed", "devices"))
    if not isinstance(name, str) or not isinstance(seed, int) or not isinstance(devices, int):
        raise Malformed("the first line names no scenario, seed and devices")
    base = scenario(name)
    other = replace(base, spec=changed(base.spec, changes))
    return [asdict(simulate(one, seed, devices, checked=False).outcome) for one in (base, other)]


def _print_figures(figures: Mapping[str, Sequence[Figures]]) -> None:
    print(
        f"{'version':<10}{'threshold':>12}{'escalated':>11}{'within':>17}{'bytes':>8}{'accuracy':>10}"
        f"{'edge p95 ms':>13}{'final ms':>10}"
    )
    for version, rows in figures.items():
        for one in rows:
            name = "as it was" if one.threshold is None else f"{one.threshold:g}"
            within = f"{one.escalated_low:.3f}-{one.escalated_high:.3f}"
            sent = "-" if one.bytes_per_sample is None else f"{one.bytes_per_sample:.1f}"
            right = "-" if one.accuracy is None else f"{one.accuracy:.4f}"
            print(
                f"{version:<10}{name:>12}{one.escalated:>11.3f}{within:>17}{sent:>8}{right:>10}"
                f"{one.edge_p95_ms:>13.2f}{one.final_ms:>10.2f}"
            )
    print(
        f"Bytes are a sample's. Confidence is known in steps of {1 / CONFIDENCE_BINS:g}: a threshold "
        "between two steps escalates a share within the bounds; the estimate takes a step to be evenly filled."
    )


def _print_gates(gated: Sequence[Gated]) -> None:
    _print_columns(("", "as it was", "instead"), [asdict(one) for one in gated])
    print("The same recorded events; a later end than the recorded one cannot be known.")


def _print_columns(heads: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
    print(f"{heads[0]:<18}{heads[1]:<44}{heads[2]}")
    for name in rows[0]:
        print(f"{name:<18}{str(rows[0][name])[:42]:<44}{str(rows[1][name])[:120]}")
