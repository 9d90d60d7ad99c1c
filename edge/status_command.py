"""`hybridge-edge status`: what the running agent of this device does, and how novel its inputs are."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from edge.local_call import call, strange

_PATH = "/v1/status"
_COUNTS = (
    "recorded", "answered", "answered_by_cloud", "confidence_not_a_number", "became_watchful",
    "became_novel", "became_calm", "audits_raised_out",
)  # fmt: skip


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class NoveltyStatus(_Said):
    level: str
    score: float
    feature: str
    audit_share: float
    raised_out: bool
    looked: int
    missing: int


class Outbox(_Said):
    samples: int
    bytes: int


class Status(_Said):
    device: str
    software: str
    ready: bool
    model: str
    model_version: str
    engine: str
    link_up: bool
    outbox: Outbox
    novelty: NoveltyStatus | None
    ledger: dict[str, int]
    counters: dict[str, int]


def fetch(state_dir: Path) -> Status:
    """Raises as `edge.local_call.call` does."""
    try:
        return Status.model_validate_json(call(state_dir, _PATH))
    except ValidationError as error:
        raise strange(state_dir, _PATH) from error


def words(status: Status) -> str:
    """For people."""
    counts = ", ".join(
        f"{name} {status.counters[name]:,}" for name in _COUNTS if name in status.counters
    )
    lost = ", ".join(f"{reason} {count:,}" for reason, count in sorted(status.ledger.items()))
    return "\n".join((
        f"device     {status.device} ({status.software}), {'ready' if status.ready else 'not ready'}",
        f"model      {status.model} {status.model_version} in {status.engine}",
        f"link       {'up' if status.link_up else 'down'}; {_outbox(status.outbox)}",
        f"inputs     {_inputs(status.novelty)}",
        f"counts     {counts or 'none yet'}",
        f"given up   {lost or 'none'}",
    ))  # fmt: skip


def _outbox(outbox: Outbox) -> str:
    return f"{outbox.samples:,} samples wait ({outbox.bytes:,} bytes)"


def _inputs(novelty: NoveltyStatus | None) -> str:
    if novelty is None:
        return "not watched: no cloud to ask, or the bundle has no reference"
    whose = f" ({novelty.feature})" if novelty.feature else ""
    out = "; raised for as long as they may be" if novelty.raised_out else ""
    return (
        f"{novelty.level}, score {novelty.score:z.2f}{whose}; {novelty.looked:,} looked at, "
        f"{novelty.missing:,} with nothing in them; audits {novelty.audit_share:.1%}{out}"
    )
