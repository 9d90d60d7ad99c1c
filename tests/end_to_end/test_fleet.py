"""Rollouts to real agents: a good version reaches all, bad ones are stopped at the canary and undone."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cloud.rollouts.documents import CRITERIA, RolloutStatus, RolloutView
from simulations.spoilt_models import Kind, spoil, version_of
from tests.cloud.cli.own_registry import ROOT
from tests.end_to_end.fleet_site import FleetSite, delegate, fleet_site, release

BASE = ROOT / "models" / "fashion-edge"
SAMPLES = ROOT / "models" / "fashion-mnist-test-2000.npz"
ENDED = (RolloutStatus.SUCCEEDED, RolloutStatus.ROLLED_BACK, RolloutStatus.ABORTED)
BAD: dict[str, Kind] = {"1.2.0": "worse", "1.3.0": "nan", "1.4.0": "load", "1.5.0": "slow"}
SPEC: dict[str, object] = {
    "seed": "e2e", "canary": 0.2, "waves": [0.5, 1.0], "shadow_s": 300.0, "shadow_samples": 1500,
    "wave_s": 4.0, "watch_s": 5.0, "samples_min": 300, "done_samples": 20,
    "device_timeout_s": 120.0, "silence_s": 30.0, "audit_share": 1.0,
    # all but latency: these devices share two cores with the whole region
    "criteria": [text for text in CRITERIA if not text.startswith("p95")],
}  # fmt: skip


def _ended(view: RolloutView) -> bool:
    return view.status in ENDED and not view.undoing


def _site(folder: Path, agents: int, rate: float) -> Iterator[FleetSite]:
    with np.load(SAMPLES) as data:
        np.savez(folder / "samples.npz", images=data["images"])  # the agents see no labels
    with fleet_site(folder, cloud_model=ROOT / "models" / "fashion-cloud") as site:
        delegate(site.registry, site.model)
        for version in ("1.0.0", "1.1.0"):
            release(site.registry, version_of(BASE, folder / version, version), site.model)
        site.start_agents(
            agents, factory=folder / "1.0.0", engine="openvino", samples=folder / "samples.npz",
            rate=rate,
        )  # fmt: skip
        yield site


def _release_bad(site: FleetSite, version: str) -> None:
    """By the registry's rules it is good: the devices' evidence alone tells."""
    with np.load(SAMPLES) as data:
        images, labels = data["images"], data["labels"]
    bad = spoil(BASE, site.folder / version, version, BAD[version], images, labels)
    release(site.registry, bad, site.model)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetSite]:
    yield from _site(tmp_path_factory.mktemp("small"), 4, 40.0)


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetSite]:
    yield from _site(tmp_path_factory.mktemp("big"), 20, 15.0)


def _a_good_version_reaches_all(site: FleetSite, within_s: float, **spec: object) -> None:
    """The control plane is killed and comes back while the canary runs, and in a wave."""
    rollout = site.rollout("1.1.0", **SPEC | spec)
    site.until(rollout, lambda view: view.stage >= 1, within_s)
    site.restart_fleet()
    site.until(rollout, lambda view: view.stage >= 2, within_s)
    site.restart_fleet()
    view = site.until(rollout, _ended, within_s)
    assert view.status is RolloutStatus.SUCCEEDED, site.why(view)
    assert set(site.really_run().values()) == {"1.1.0"}
    assert set(site.versions().values()) == {"1.1.0"}


def _a_bad_version_is_stopped(site: FleetSite, version: str, within_s: float) -> RolloutView:
    _release_bad(site, version)
    rollout = site.rollout(version, **SPEC)
    site.until(rollout, lambda view: view.started_at is not None, 30)
    site.restart_fleet()
    view = site.until(rollout, _ended, within_s)
    assert view.status is RolloutStatus.ROLLED_BACK, site.why(view)
    devices = site.ask(lambda client: client.rollouts.devices(rollout))
    touched = {one.device for one in devices if one.phase not in ("queued", "left")}
    assert len(touched) <= view.stages[0].devices, site.why(view)  # the canary's
    assert set(site.really_run().values()) == {"1.1.0"}, site.why(view)
    return view


def test_a_few_agents_follow_a_rollout_and_its_end(small: FleetSite) -> None:
    _a_good_version_reaches_all(small, 120, shadow_samples=300)
    view = _a_bad_version_is_stopped(small, "1.3.0", 60)
    assert "golden_failures" in view.why


@pytest.mark.slow
def test_twenty_agents_get_a_good_version_and_are_spared_bad_ones(big: FleetSite) -> None:
    _a_good_version_reaches_all(big, 300)
    for version, kind in BAD.items():
        view = _a_bad_version_is_stopped(big, version, 400)
        assert view.why, kind
