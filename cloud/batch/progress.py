"""How far a batch has come, for people and programs. Pure."""

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """What this run has done so far."""

    rows: int = 0
    inputs: int = 0  # done or failed
    failed: int = 0
    rows_unforeseen: int = 0  # more, or fewer, than names and sizes let expect


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts are of this run; `share` is of time, what the governor grants."""

    state: str
    rows: int
    rows_expected: int  # judged from sizes until an input is read
    inputs: int
    inputs_total: int
    failed: int
    rows_per_s: float
    eta_s: float | None  # None before the first batch
    share: float


def progress(
    tally: Tally,
    *,
    state: str,
    rows_expected: int,
    inputs_total: int,
    elapsed_s: float,
    share: float,
) -> Progress:
    """`rows_expected` and `inputs_total` are of what was left when the run began."""
    expected = max(tally.rows, rows_expected + tally.rows_unforeseen)
    rows_per_s = tally.rows / elapsed_s if elapsed_s > 0 else 0.0
    eta_s = (expected - tally.rows) / rows_per_s if rows_per_s else None
    return Progress(
        state=state, rows=tally.rows, rows_expected=expected, inputs=tally.inputs,
        inputs_total=inputs_total, failed=tally.failed, rows_per_s=rows_per_s, eta_s=eta_s,
        share=share,
    )  # fmt: skip
