from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_a_train_worker_has_what_every_part_has_at_the_same_versions() -> None:
    all_parts = set((ROOT / "requirements.lock").read_text().split())
    training = set((ROOT / "requirements-train.lock").read_text().split())
    assert all_parts - training == set()
    assert {"torch==2.13.0", "pytorch-ignite==0.5.5", "nncf==3.4.0"} <= training
