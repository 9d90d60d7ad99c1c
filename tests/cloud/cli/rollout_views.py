"""Views of rollouts for drawings and differences."""

from cloud.rollouts.documents import (
    CriterionView,
    ModelSubject,
    ProfileSubject,
    RolloutSpec,
    RolloutStatus,
    RolloutView,
    StageView,
)

HASH = "ab" * 32
NOW = 1_800_000_000.0
HOUR = 3600.0


def spec(model: str = "fashion-edge", version: str = "1.4.0", **more: object) -> RolloutSpec:
    tree: dict[str, object] = {
        "subject": ModelSubject(model=model, version=version, manifest_sha256=HASH),
        "group": "lyon", "seed": f"{version}-{model}",
    }  # fmt: skip
    return RolloutSpec.model_validate(tree | more)


def profile_spec(name: str, version: int, **more: object) -> RolloutSpec:
    subject = ProfileSubject(name=name, version=version, sha256=HASH)
    return spec(subject=subject, seed=f"{version}-{name}", **more)


STAGES = (
    StageView(
        kind="shadow", number=0, devices=5, done=5, failed=0, in_flight=0, left=0,
        opened_at=NOW - 3 * HOUR, ended_at=NOW - 2 * HOUR,
    ),
    StageView(
        kind="canary", number=1, devices=5, done=3, failed=1, in_flight=1, left=0,
        opened_at=NOW - 2 * HOUR, waits_for="1 device, and 120 of 500 samples",
    ),
    StageView(kind="wave", number=2, devices=45, done=0, failed=0, in_flight=0, left=2),
    StageView(kind="watch", number=3, devices=50, done=0, failed=0, in_flight=0, left=0),
)  # fmt: skip
CRITERIA = (
    CriterionView(
        text="disagreement <= control + 0.02", verdict="open", cohort=0.031, cohort_low=0.01,
        cohort_high=0.09, control=0.02, control_low=0.015, control_high=0.026, samples=380,
        control_samples=4100, words="its upper end is over the bound",
    ),
    CriterionView(
        text="p95_latency_ms <= control * 1.5", verdict="holds", cohort=12.0, cohort_low=11.0,
        cohort_high=13.5, control=11.5, samples=380, control_samples=4100,
    ),
    CriterionView(text="accuracy_loss <= 0.005", verdict="no data"),
)  # fmt: skip


def view(**more: object) -> RolloutView:
    tree: dict[str, object] = {
        "id": "lyon-12", "spec": spec(), "status": RolloutStatus.RUNNING, "stage": 1,
        "stages": STAGES, "criteria": CRITERIA, "created_by": "anna", "created_at": NOW - 4 * HOUR,
        "started_at": NOW - 3 * HOUR, "revision": 2,
    }  # fmt: skip
    return RolloutView.model_validate(tree | more)
