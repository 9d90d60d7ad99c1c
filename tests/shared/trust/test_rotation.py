"""Every key can be changed, and every key can be lost, without a visit to a device."""

import asyncio
from pathlib import Path

import pytest

from cloud.registry.trust import edits
from shared.errors import NotTrusted
from shared.trust.store import TrustStore
from tests.shared.trust.site import DAY, NOW, Site, holders, key, manifest_of, stored, versions


@pytest.fixture
def site() -> Site:
    site = Site()
    site.release("fashion", "1.0.0")
    return site


@pytest.fixture
def device(tmp_path: Path, site: Site) -> TrustStore:
    """One that has seen the first state of the registry."""
    device = TrustStore(tmp_path / "trust", site.files["1.root.json"])
    assert asyncio.run(versions(device, site)) == ["1.0.0"]
    return device


def takes(device: TrustStore, site: Site, *expected: str) -> None:
    assert asyncio.run(versions(device, site)) == list(expected)


def refuses(device: TrustStore, site: Site, reason: str) -> None:
    with pytest.raises(NotTrusted, match=reason):
        asyncio.run(versions(device, site))


def change_online(site: Site) -> None:
    """New snapshot and timestamp keys, by 2 of 3 root keys."""
    for role in ("snapshot", "timestamp"):
        site.keys[role] = [key()]
    changed = {role: holders(*site.keys[role]) for role in ("snapshot", "timestamp")}
    site.turn_root(changed, site.keys["root"][:2])
    site.publish({}, root_changed=True)


def change_targets(site: Site) -> None:
    """A new targets key: the root names it, and the targets are signed with it."""
    site.keys["targets"] = [key()]
    site.turn_root({"targets": holders(*site.keys["targets"])}, site.keys["root"][:2])
    again = edits.renewed(site.newest["targets"], "targets", site.now, 365)
    site.publish({"targets": edits.sign(again, "targets", site.keys["targets"])}, root_changed=True)


def change_release(site: Site) -> None:
    """A new release key: the targets appoint it, and the model's role is signed with it."""
    new = [key()]
    targets = edits.with_delegation(
        site.newest["targets"], {"fashion": holders(*new)}, site.now, 365
    )
    again = edits.renewed(site.newest["model-fashion"], "model-fashion", site.now, 365)
    site.keys["release"] = new
    site.publish(
        {
            "targets": edits.sign(targets, "targets", site.keys["targets"]),
            "model-fashion": edits.sign(again, "model-fashion", new),
        }
    )


def change_root(site: Site) -> None:
    """All three root keys: signed by two of the old and two of the new."""
    old, new = site.keys["root"], [key(), key(), key()]
    site.turn_root({"root": holders(*new, threshold=2)}, [*old[:2], *new[1:]])
    site.keys["root"] = new


CHANGES = {
    "release key": change_release,
    "targets key": change_targets,
    "online keys": change_online,
    "root keys": change_root,
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_key_is_changed_and_a_device_follows(site: Site, device: TrustStore, what: str) -> None:
    CHANGES[what](site)
    takes(device, site, "1.0.0")
    site.release("fashion", "1.1.0")
    takes(device, site, "1.1.0", "1.0.0")


def test_a_device_that_was_away_through_every_change_follows_all_roots(
    site: Site, device: TrustStore
) -> None:
    for round_ in range(3):
        for change in CHANGES.values():
            change(site)
            site.release("fashion", f"2.{round_}.{len(site.files)}")
            site.later(10)
    assert edits.read(site.root, "root", "root").signed.version == 10
    trusted = asyncio.run(device.refresh(site.fetch, "fashion", site.now))
    assert trusted.root_version == 10
    assert len(trusted.releases) == 13
    assert asyncio.run(device.load("fashion", site.now)) == trusted


def test_another_threshold_of_release_keys_counts_at_once(site: Site, device: TrustStore) -> None:
    both = [key(), key()]
    targets = edits.with_delegation(
        site.newest["targets"], {"fashion": holders(*both, threshold=2)}, site.now, 365
    )
    again = edits.renewed(site.newest["model-fashion"], "model-fashion", site.now, 365)
    site.publish(
        {
            "targets": edits.sign(targets, "targets", site.keys["targets"]),
            "model-fashion": edits.sign(again, "model-fashion", both),
        }
    )
    takes(device, site, "1.0.0")
    site.release("fashion", "1.1.0", signers=both[:1])
    refuses(device, site, "signed by 1/2 keys")


# lost or stolen


def test_drill_one_root_key_lost_the_two_others_replace_it(site: Site, device: TrustStore) -> None:
    _, second, third = site.keys["root"]
    new = key()
    site.turn_root({"root": holders(second, third, new, threshold=2)}, [second, third])
    site.keys["root"] = [second, third, new]
    takes(device, site, "1.0.0")
    change_online(site)
    takes(device, site, "1.0.0")


def test_drill_a_stolen_root_key_alone_makes_nothing(site: Site, device: TrustStore) -> None:
    stolen, thief = site.keys["root"][0], key()
    site.turn_root({"root": holders(thief)}, [stolen, thief])
    refuses(device, site, "signed by 1/2 keys")


def test_drill_stolen_online_keys_cannot_release_and_end_with_a_new_root(
    site: Site, device: TrustStore
) -> None:
    stolen = {role: site.keys[role] for role in ("snapshot", "timestamp")}
    role = edits.with_release(
        site.newest["model-fashion"],
        "fashion",
        "6.6.6",
        stored(manifest_of("fashion", "6.6.6")),
        NOW,
        365,
    )
    site.publish({"model-fashion": edits.sign(role, "model-fashion", [key()])})
    refuses(device, site, "model-fashion.json: .*signed by 0/1 keys")

    # worse: versions raised out of reach, so that true ones look like a rollback
    thieved = dict(site.files)
    far = edits.next_timestamp(site.newest["snapshot"], NOW, 3, 2**31 - 1)
    site.files["timestamp.json"] = edits.sign(far, "timestamp", stolen["timestamp"])
    refuses(device, site, "model-fashion")
    site.files = thieved
    site.files["timestamp.json"] = site.newest["timestamp"]
    refuses(device, site, "must be >= 2147483647")

    site.keys["timestamp"], site.keys["snapshot"] = [key()], [key()]
    changed = {name: holders(*site.keys[name]) for name in ("snapshot", "timestamp")}
    site.turn_root(changed, site.keys["root"][:2])
    good = edits.renewed(site.newest["model-fashion"], "model-fashion", NOW, 365)
    site.publish(
        {"model-fashion": edits.sign(good, "model-fashion", site.keys["release"])},
        root_changed=True,
    )
    assert asyncio.run(device.refresh(site.fetch, "fashion", NOW)).root_version == 2


def test_drill_a_lost_targets_key_is_replaced_by_the_root_keys(
    site: Site, device: TrustStore
) -> None:
    site.keys["targets"] = []  # lost
    change_targets(site)
    change_release(site)  # the new one works
    takes(device, site, "1.0.0")


def test_drill_a_stolen_release_key_stops_working_with_the_next_targets(
    site: Site, device: TrustStore
) -> None:
    stolen = site.keys["release"]
    change_release(site)
    takes(device, site, "1.0.0")
    site.release("fashion", "6.6.6", signers=stolen)
    refuses(device, site, "signed by 0/1 keys")


def test_drill_all_root_keys_lost_what_runs_goes_on_until_a_new_root_is_pinned(
    site: Site, device: TrustStore, tmp_path: Path
) -> None:
    after = Site()
    after.release("fashion", "3.0.0")
    refuses(device, after, "not signed by enough")
    kept = asyncio.run(device.load("fashion", NOW + 900 * DAY))
    assert kept.newest is not None
    assert kept.newest.version == "1.0.0"
    assert kept.stale is not None
    again = TrustStore(tmp_path / "trust", after.files["1.root.json"])
    assert asyncio.run(versions(again, after)) == ["3.0.0"]


def test_more_roots_than_a_walk_may_pass_are_refused(
    site: Site, device: TrustStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.trust.walk.ROOTS_MAX", 3)
    for _ in range(4):
        site.turn_root({}, site.keys["root"][:2])
    refuses(device, site, "more than 3 roots")
