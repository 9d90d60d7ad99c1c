"""The rollout of a cycle's new version. Pure."""

from typing import Final, Literal

from cloud.learning.loop.commands import Roll

CRITERIA: Final = (
    "install_failures <= 0.02",
    "golden_failures <= 0",
    "silent <= 0.05",
    "inference_failures <= 0.001",
    "p95_latency_ms <= control * 1.5",
    "disagreement <= control + 0.02",
    "accuracy_loss <= 0.005",
)
"""As a rollout's own default, without `escalation_rate` and `confidence_shift`: a version that
learned a drifted scene says other things than the one before, and is less sure where that was sure
and wrong. Whether it is right is in `disagreement` and `accuracy_loss`."""
_WATCH_S_MAX: Final = 90 * 86_400.0
_STAGES: Final[dict[Literal["default", "fast"], dict[str, object]]] = {
    "default": {},
    # for a demonstration and for fleets of a few devices: one canary, then everybody
    "fast": {
        "shadow_s": 0, "canary": 0.34, "waves": [1.0], "wave_s": 1.0, "samples_min": 1,
        "done_samples": 1, "silence_s": 120.0,
    },
}  # fmt: skip


def rollout_spec(command: Roll) -> dict[str, object]:
    """As `RolloutSpec`, without the manifest's hash, which the fleet asks the registry for."""
    criteria = [one for one in CRITERIA if command.stages == "default" or _is_plain(one)]
    return {
        "subject": {"kind": "model", "model": command.model, "version": command.version},
        "group": command.group, "seed": command.seed, "criteria": criteria,
        "watch_s": min(command.watch_s, _WATCH_S_MAX), **_STAGES[command.stages],
    }  # fmt: skip


def _is_plain(criterion: str) -> bool:
    """Needs neither a control nor a shadow, which a fast rollout has not got."""
    return "control" not in criterion and not criterion.startswith("accuracy_loss")
