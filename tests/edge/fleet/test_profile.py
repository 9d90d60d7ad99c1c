"""A device profile over the agent's own settings."""

import pytest

from edge.fleet.profile import Tuning, tuned
from edge.routing.settings import Budget, Novelty, Routing
from shared.errors import Malformed
from shared.fleet.profile import ProfileSettings

OWN = Tuning(
    Routing(threshold="balanced", audit_share=0.02, budget=Budget(samples_per_s=5, burst_s=3)),
    30.0, "info", ("01:00-05:00",), 9999.0,
)  # fmt: skip


def test_what_a_profile_does_not_set_stays() -> None:
    assert tuned(OWN, ProfileSettings(), None) == OWN
    assert tuned(OWN, None, None) == OWN


def test_all_that_it_sets_takes_the_place_of_the_devices_own() -> None:
    got = tuned(
        OWN,
        ProfileSettings(
            threshold="strict", audit_share=0.5, novelty=False, novelty_audit_share=0.4, samples_per_s=1, bytes_per_s=2, telemetry_s=60,
            update_windows=(), update_bytes_per_s=4096, log_level="debug",
        ),
        None,
    )  # fmt: skip
    budget = Budget(samples_per_s=1, bytes_per_s=2, burst_s=3)
    assert got == Tuning(
        Routing(
            threshold="strict",
            audit_share=0.5,
            budget=budget,
            novelty=Novelty(on=False, audit_share=0.4),
        ),
        60,
        "debug",
        (),
        4096,
    )


@pytest.mark.parametrize(
    ("settings", "threshold", "confidence_min"),
    [
        (ProfileSettings(confidence_min=0.7), None, 0.7),
        (ProfileSettings(threshold="strict"), "strict", None),
    ],
)
def test_of_threshold_and_confidence_one_takes_the_others_place(
    settings: ProfileSettings, threshold: str | None, confidence_min: float | None
) -> None:
    routing = tuned(OWN, settings, None).routing
    assert (routing.threshold, routing.confidence_min) == (threshold, confidence_min)


def test_a_rollout_that_gathers_evidence_has_the_last_word_on_audits() -> None:
    assert tuned(OWN, ProfileSettings(audit_share=0.5), 0.1).routing.audit_share == 0.1
    assert tuned(OWN, None, 0.0).routing.audit_share == 0.0


def test_an_empty_window_refuses_the_profile() -> None:
    with pytest.raises(Malformed, match="window '05:00-05:00' is empty"):
        tuned(OWN, ProfileSettings(update_windows=("05:00-05:00",)), None)
