"""The attack table: each is refused, and what the device had stays. `docs/trust.md` lists them."""

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from cloud.registry.trust import edits
from shared.errors import HybridgeError, Malformed, NotTrusted, Refused, TooLarge, Unavailable
from shared.trust.names import bytes_max
from shared.trust.releases import ReleaseTarget
from shared.trust.store import TrustStore
from shared.trust.tuf_api import Metadata
from tests.shared.trust.site import DAY, NOW, Site, holders, key, manifest_of, stored, versions


@pytest.fixture
def site() -> Site:
    site = Site()
    site.release("fashion", "1.0.0")
    site.release("fashion", "1.1.0")
    return site


@pytest.fixture
def device(tmp_path: Path, site: Site) -> TrustStore:
    return TrustStore(tmp_path / "trust", site.files["1.root.json"])


def refuses(
    device: TrustStore,
    site: Site,
    reason: str,
    *,
    error: type[HybridgeError] = NotTrusted,
    now: datetime | None = None,
) -> None:
    """The refresh is refused for this reason, and what was trusted before still is."""
    before = _kept(device)
    with pytest.raises(error, match=reason):
        asyncio.run(versions(device, site, now))
    assert _kept(device) == before


def takes(device: TrustStore, site: Site, *expected: str, now: datetime | None = None) -> None:
    assert asyncio.run(versions(device, site, now)) == list(expected)


def _kept(device: TrustStore) -> tuple[ReleaseTarget, ...]:
    try:
        return asyncio.run(device.load("fashion", NOW)).releases
    except Refused:
        return ()


def altered(content: bytes, change: Callable[[dict], None]) -> bytes:
    """The file with its signed part changed, and the signatures that it had."""
    tree = json.loads(content)
    change(tree["signed"])
    return json.dumps(tree, separators=(",", ":"), sort_keys=True).encode()


# rollback


def test_an_older_timestamp_is_refused(site: Site, device: TrustStore) -> None:
    old = site.files["timestamp.json"]
    site.later(1.5)
    takes(device, site, "1.1.0", "1.0.0")
    site.files["timestamp.json"] = old
    refuses(device, site, r"timestamp version .* must be >=")


def test_an_older_snapshot_under_a_newer_timestamp_is_refused(
    site: Site, device: TrustStore
) -> None:
    old = site.newest["snapshot"]
    site.release("fashion", "1.2.0")
    takes(device, site, "1.2.0", "1.1.0", "1.0.0")
    timestamp = edits.next_timestamp(old, NOW, 3, 99)
    site.files["timestamp.json"] = edits.sign(timestamp, "timestamp", site.keys["timestamp"])
    refuses(device, site, "snapshot version must be >=")


@pytest.mark.parametrize("role", ["targets", "model-fashion"])
def test_an_older_role_under_a_newer_snapshot_is_refused(
    site: Site, device: TrustStore, role: str
) -> None:
    old = site.newest[role]
    content = edits.renewed(old, role, NOW, 365)
    signers = site.keys["targets" if role == "targets" else "release"]
    site.publish({role: edits.sign(content, role, signers)})
    takes(device, site, "1.1.0", "1.0.0")
    site.publish({role: old})
    refuses(device, site, f"Expected {role}.json version")


def test_a_root_is_followed_by_the_next_version_alone(site: Site, device: TrustStore) -> None:
    takes(device, site, "1.1.0", "1.0.0")
    site.files["2.root.json"] = site.files["1.root.json"]
    refuses(device, site, "Expected root version 2 instead got version 1")
    site.turn_root({}, site.keys["root"])
    site.turn_root({}, site.keys["root"])
    site.files["2.root.json"] = site.files["3.root.json"]
    refuses(device, site, "Expected root version 2 instead got version 3")


def test_a_root_whose_epoch_falls_is_refused(site: Site, device: TrustStore) -> None:
    site.turn_root({}, site.keys["root"], epoch=2)
    takes(device, site, "1.1.0", "1.0.0")
    site.turn_root({}, site.keys["root"], epoch=1)
    refuses(device, site, "epoch fell from 2 to 1")


# freeze, expiry, clocks


def test_a_frozen_timestamp_is_refused_once_it_expires(site: Site, device: TrustStore) -> None:
    takes(device, site, "1.1.0", "1.0.0", now=NOW + 2.9 * DAY)
    refuses(device, site, "timestamp.json is expired", now=NOW + 3 * DAY)


@pytest.mark.parametrize("role", ["root", "snapshot", "targets", "model-fashion"])
def test_expired_metadata_of_every_role_is_refused(
    site: Site, device: TrustStore, role: str
) -> None:
    """While the timestamp is fresh."""
    if role == "root":
        root = edits.next_root(site.root, NOW, 1)
        site.put("root", edits.sign(root, "root", site.keys["root"]))
    elif role == "snapshot":
        content = edits.next_snapshot(site.newest[role], {}, NOW, 1, 9)
        site.put(role, edits.sign(content, role, site.keys[role]))
    else:
        content = edits.renewed(site.newest[role], role, NOW, 1)
        signers = site.keys["targets" if role == "targets" else "release"]
        site.publish({role: edits.sign(content, role, signers)})
    timestamp = edits.next_timestamp(site.newest["snapshot"], NOW, 3, 9)
    site.put("timestamp", edits.sign(timestamp, "timestamp", site.keys["timestamp"]))
    takes(device, site, "1.1.0", "1.0.0")
    refuses(device, site, "expired", now=NOW + 2 * DAY)


def test_a_clock_a_day_behind_changes_nothing(site: Site, device: TrustStore) -> None:
    takes(device, site, "1.1.0", "1.0.0", now=NOW - DAY)


def test_a_clock_a_day_ahead_changes_nothing_while_the_registry_keeps_time(
    site: Site, device: TrustStore
) -> None:
    for _ in range(8):
        site.later(0.5)
        takes(device, site, "1.1.0", "1.0.0", now=site.now + DAY)


@pytest.mark.parametrize("clock", [datetime(1970, 1, 1, tzinfo=NOW.tzinfo), NOW - 2 * DAY])
def test_without_a_clock_nothing_new_is_taken_and_nothing_shown_is_kept(
    site: Site, device: TrustStore, clock: datetime, tmp_path: Path
) -> None:
    refuses(device, site, "this device's clock", now=clock)
    assert not (tmp_path / "trust" / "timestamp.json").exists()
    takes(device, site, "1.1.0", "1.0.0")


def test_a_clock_that_fell_back_keeps_what_runs_and_takes_nothing_new(
    site: Site, device: TrustStore
) -> None:
    takes(device, site, "1.1.0", "1.0.0")
    site.release("fashion", "1.2.0")
    refuses(device, site, "this device's clock", now=NOW - 30 * DAY)
    kept = asyncio.run(device.load("fashion", NOW - 30 * DAY))
    assert kept.newest is not None
    assert kept.newest.version == "1.1.0"
    assert kept.stale is not None
    assert "clock" in kept.stale


def test_a_frozen_clock_does_not_outlive_the_newest_timestamp_that_was_believed(
    site: Site, device: TrustStore
) -> None:
    """Time is at least the signing time of that timestamp, so an older one's expiry counts."""
    site.later(2.9)
    takes(device, site, "1.1.0", "1.0.0", now=NOW + 2.9 * DAY)
    snapshot = site.newest["snapshot"]
    short = edits.next_timestamp(snapshot, NOW, 2, 9)  # newer by its number, expired by then
    site.files["timestamp.json"] = edits.sign(short, "timestamp", site.keys["timestamp"])
    refuses(device, site, "expired", now=NOW + 2 * DAY - timedelta(hours=1))


def test_what_expired_before_the_timestamp_was_signed_is_refused_by_a_slow_clock_too(
    site: Site, device: TrustStore
) -> None:
    role = edits.renewed(site.newest["model-fashion"], "model-fashion", NOW, 1.5)
    site.publish({"model-fashion": edits.sign(role, "model-fashion", site.keys["release"])})
    site.later(2)
    refuses(device, site, "model-fashion is expired", now=site.now - DAY)


def test_a_timestamp_without_its_signing_time_is_refused(site: Site, device: TrustStore) -> None:
    metadata = Metadata.from_bytes(site.newest["timestamp"])
    del metadata.signed.unrecognized_fields["x-hybridge-issued"]
    metadata.sign(site.keys["timestamp"][0])
    site.files["timestamp.json"] = metadata.to_bytes()
    refuses(device, site, "x-hybridge-issued: is missing", error=Malformed)


def test_a_clock_far_ahead_refuses_and_recovers(site: Site, device: TrustStore) -> None:
    refuses(device, site, "expired", now=NOW + 400 * DAY)
    takes(device, site, "1.1.0", "1.0.0")


def test_a_registry_whose_clock_ran_ahead_leaves_no_trace_on_devices(
    site: Site, device: TrustStore
) -> None:
    takes(device, site, "1.1.0", "1.0.0")
    site.later(3_650)
    refuses(device, site, "this device's clock", now=NOW)
    site.now = NOW
    content = edits.next_timestamp(site.newest["snapshot"], NOW, 3, 99)
    site.files["timestamp.json"] = edits.sign(content, "timestamp", site.keys["timestamp"])
    site.files["2.snapshot.json"] = site.newest["snapshot"]
    takes(device, site, "1.1.0", "1.0.0")


# wrong keys


@pytest.mark.parametrize("role", ["timestamp", "snapshot", "targets", "model-fashion"])
def test_metadata_signed_by_a_foreign_key_is_refused(
    site: Site, device: TrustStore, role: str
) -> None:
    takes(device, site, "1.1.0", "1.0.0")
    foreign = Site()
    foreign.release("fashion", "6.6.6")
    if role in {"snapshot", "timestamp"}:
        site.keys[role] = [key()]
        content = _next(site, role)
    else:
        content = edits.renewed(site.newest[role], role, NOW, 365)
    content = edits.sign(content, role, [key()])
    if role == "timestamp":
        site.files["timestamp.json"] = content
    elif role == "snapshot":
        site.put("snapshot", content)
        timestamp = edits.next_timestamp(content, NOW, 3, 99)
        site.put("timestamp", edits.sign(timestamp, "timestamp", site.keys["timestamp"]))
    else:
        site.publish({role: content})
    refuses(device, site, "not signed by enough of the keys")


def _next(site: Site, role: str) -> bytes:
    if role == "snapshot":
        return edits.next_snapshot(site.newest["snapshot"], {}, NOW, 14, 99)
    return edits.next_timestamp(site.newest["snapshot"], NOW, 3, 99)


def test_a_whole_foreign_repository_is_refused(site: Site, device: TrustStore) -> None:
    foreign = Site()
    foreign.release("fashion", "6.6.6")
    refuses(device, foreign, "not signed by enough of the keys")


def test_a_root_signed_by_one_of_two_is_refused(site: Site, device: TrustStore) -> None:
    site.turn_root({}, site.keys["root"][:1])
    refuses(device, site, "signed by 1/2 keys")


def test_a_root_signed_twice_by_one_key_under_two_ids_is_refused(
    site: Site, device: TrustStore
) -> None:
    mallory = site.keys["root"][0]

    def twice(signed: dict) -> None:
        signed["version"] = 2
        own = signed["keys"][mallory.public_key.keyid]
        signed["keys"]["ab" * 32] = own
        signed["roles"]["root"]["keyids"] = [mallory.public_key.keyid, "ab" * 32]

    site.files["2.root.json"] = altered(site.root, twice)
    refuses(device, site, "one key under two ids", error=Malformed)


def test_a_root_signed_by_the_new_keys_alone_is_refused(site: Site, device: TrustStore) -> None:
    new = [key(), key()]
    site.turn_root({"root": holders(*new, threshold=2)}, new)
    refuses(device, site, "signed by 0/2 keys")


def test_a_revoked_release_key_is_refused(site: Site, device: TrustStore) -> None:
    stolen, new = site.keys["release"], [key()]
    takes(device, site, "1.1.0", "1.0.0")
    site.keys["release"] = new
    _appoint(site, "fashion", new)
    takes(device, site, "1.1.0", "1.0.0")
    site.release("fashion", "6.6.6", signers=stolen)
    refuses(device, site, "signed by 0/1 keys")


def _appoint(site: Site, model: str, signers: list) -> None:
    targets = edits.with_delegation(
        site.newest["targets"], {model: holders(*signers)}, site.now, 365
    )
    role = f"model-{model}"
    again = edits.renewed(site.newest[role], role, site.now, 365)
    site.publish(
        {
            "targets": edits.sign(targets, "targets", site.keys["targets"]),
            role: edits.sign(again, role, signers),
        }
    )


def test_metadata_with_an_unknown_algorithm_is_refused(site: Site, device: TrustStore) -> None:
    def other(signed: dict) -> None:
        for one in signed["keys"].values():
            one["keytype"] = one["scheme"] = "rot13"

    site.files["2.root.json"] = altered(site.root, other)
    refuses(device, site, "2.root.json: .*ed25519", error=Malformed)


# mix and match, tampering


def test_files_of_two_states_of_the_repository_do_not_mix(site: Site, device: TrustStore) -> None:
    other = Site()
    other.keys = site.keys
    old = dict(site.files)
    site.release("fashion", "1.2.0")
    site.files["4.snapshot.json"] = old["3.snapshot.json"]
    refuses(device, site, "4.snapshot.json: .*(does not match|length)")


@pytest.mark.parametrize(
    "name", ["timestamp.json", "3.snapshot.json", "2.targets.json", "2.model-fashion.json"]
)
def test_one_altered_character_in_any_file_is_refused(
    site: Site, device: TrustStore, name: str
) -> None:
    def later(signed: dict) -> None:
        signed["expires"] = signed["expires"].replace("2026", "2036").replace("2027", "2037")

    site.files[name] = altered(site.files[name], later)
    refuses(device, site, name)


def test_a_tampered_manifest_is_refused(site: Site, device: TrustStore) -> None:
    trusted = asyncio.run(device.refresh(site.fetch, "fashion", NOW))
    release = trusted.release("1.1.0")
    manifest = manifest_of("fashion", "1.1.0")
    release.check_manifest(manifest)
    for bad in (manifest[:-1], manifest + b" ", manifest.replace(b"1.1.0", b"1.1.1"), b""):
        with pytest.raises(NotTrusted, match=r"manifest.json has .* signed for are"):
            release.check_manifest(bad)


def test_a_release_key_equivocating_under_one_version_is_refused(
    site: Site, device: TrustStore
) -> None:
    """The snapshot pins the very file: a stolen release key is of no use without the online keys."""
    content = edits.with_release(
        site.files["1.model-fashion.json"], "fashion", "6.6.6",
        stored(manifest_of("fashion", "6.6.6")), NOW, 365,
    )  # fmt: skip
    site.files["2.model-fashion.json"] = edits.sign(content, "model-fashion", site.keys["release"])
    refuses(device, site, "not the file that was signed for|2.model-fashion.json")


def test_a_model_role_that_names_another_models_path_is_refused(
    site: Site, device: TrustStore
) -> None:
    metadata = Metadata.from_bytes(site.newest["model-fashion"])
    target = metadata.signed.targets.pop("fashion/1.1.0/manifest.json")
    metadata.signed.targets["digits/1.1.0/manifest.json"] = target
    metadata.signed.version += 1
    content = edits.sign(_unsigned(metadata), "model-fashion", site.keys["release"])
    site.publish({"model-fashion": content})
    refuses(device, site, "names 'digits/1.1.0/manifest.json'")


@pytest.mark.parametrize("path", ["fashion/../digits/manifest.json", "fashion/1.0.0/x", "*/*"])
def test_a_model_role_that_names_anything_but_manifests_is_refused(
    site: Site, device: TrustStore, path: str
) -> None:
    metadata = Metadata.from_bytes(site.newest["model-fashion"])
    metadata.signed.targets[path] = metadata.signed.targets.pop("fashion/1.1.0/manifest.json")
    metadata.signed.version += 1
    content = edits.sign(_unsigned(metadata), "model-fashion", site.keys["release"])
    site.publish({"model-fashion": content})
    refuses(device, site, "it may name")


def test_targets_that_give_a_model_anothers_path_are_refused(
    site: Site, device: TrustStore
) -> None:
    def wide(signed: dict) -> None:
        signed["delegations"]["roles"][0]["paths"] = ["*/*/*"]

    site.files["2.targets.json"] = altered(site.files["2.targets.json"], wide)
    refuses(device, site, "other paths than its own", error=Malformed)


def test_a_model_role_that_appoints_others_is_refused(site: Site, device: TrustStore) -> None:
    def appoint(signed: dict) -> None:
        del signed["targets"]["fashion/1.0.0/manifest.json"]  # makes room: its length is signed
        signed["delegations"] = {"keys": {}, "roles": []}

    site.files["2.model-fashion.json"] = altered(site.files["2.model-fashion.json"], appoint)
    refuses(device, site, "2.model-fashion.json: signed.delegations", error=Malformed)


def test_two_releases_of_one_number_are_refused(site: Site, device: TrustStore) -> None:
    metadata = Metadata.from_bytes(site.newest["model-fashion"])
    for target in metadata.signed.targets.values():
        target.unrecognized_fields["custom"]["hybridge"]["number"] = 5
    metadata.signed.version += 1
    content = edits.sign(_unsigned(metadata), "model-fashion", site.keys["release"])
    site.publish({"model-fashion": content})
    refuses(device, site, "two releases have one number")


def _unsigned(metadata: Metadata) -> bytes:
    metadata.signatures.clear()
    return metadata.to_bytes()


# endless, over-long, bombs


@pytest.mark.parametrize("name", ["2.root.json", "timestamp.json", "3.snapshot.json"])
def test_endless_data_is_read_no_further_than_its_bound(
    site: Site, device: TrustStore, name: str
) -> None:
    asked: list[int] = []

    async def endless(wanted: str, limit: int) -> bytes | None:
        if wanted != name:
            return await site.fetch(wanted, limit)
        asked.append(limit)
        return b" " * (limit + 1)  # as a bounded reader gives what has no end

    with pytest.raises(TooLarge, match=f"{name}: more than the {{0,1}}"):
        asyncio.run(device.refresh(endless, "fashion", NOW))
    assert asked[0] <= bytes_max(name.removesuffix(".json").split(".")[-1])


def test_a_file_longer_than_its_signed_length_is_cut_there(site: Site, device: TrustStore) -> None:
    site.files["3.snapshot.json"] += b" " * 100_000
    refuses(device, site, "3.snapshot.json: more than", error=TooLarge)


def test_a_root_over_its_bound_is_refused_before_it_is_parsed(
    site: Site, device: TrustStore
) -> None:
    site.files["2.root.json"] = b"[" * 10**6
    refuses(device, site, "more than the 65536 bytes", error=TooLarge)


BOMBS = {
    "depth": b"[" * 60_000,
    "depth of members": b'{"a":' * 12_000 + b"1" + b"}" * 12_000,
    "depth within bounds of the parser": b'{"a":' * 100 + b"1" + b"}" * 100,
    "a huge integer": b'{"signed":{"version":' + b"9" * 60_000 + b"}}",
    "an integer beyond 2^53": b'{"signed":{"version":9007199254740993}}',
    "a fraction": b'{"signed":{"version":1.5}}',
    "NaN": b'{"signed":{"version":NaN}}',
    "a member twice": b'{"signatures":[],"signatures":[]}',
    "half a surrogate": b'{"signed":{"a":"\\ud800"}}',
    "half a surrogate as a name": b'{"signed":{"\\udfff":1}}',
    "not UTF-8": b'{"signed":"\xff"}',
    "nothing": b"",
    "another thing": b"[1,2,3]",
    "a text": b'"timestamp"',
    "null": b"null",
    "UTF-16": '{"signed":1}'.encode("utf-16"),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
@pytest.mark.parametrize("name", ["2.root.json", "timestamp.json"])
def test_json_that_is_no_metadata_is_refused(
    site: Site, device: TrustStore, bomb: bytes, name: str
) -> None:
    site.files[name] = bomb
    refuses(device, site, name, error=Refused)


@pytest.mark.parametrize(
    "member",
    ['"x":1.5', '"x":NaN', '"x":9007199254740993', '"x":"\\ud800"', '"\\udfff":1', '"signatures":[]',
     '"x":' + "[" * 20 + "]" * 20],
)  # fmt: skip
def test_json_that_readers_take_differently_is_refused_in_good_metadata_too(
    site: Site, device: TrustStore, member: str
) -> None:
    """Beside what is signed, so that every signature holds."""
    site.turn_root({}, site.keys["root"][:2])
    site.files["2.root.json"] = f"{{{member},".encode() + site.root[1:]
    refuses(device, site, "2.root.json: ", error=Malformed)
    site.files["2.root.json"] = b'{"x":[1],' + site.root[1:]
    takes(device, site, "1.1.0", "1.0.0")


def test_ten_thousand_signatures_are_refused_unread(site: Site, device: TrustStore) -> None:
    tree = json.loads(site.root)
    tree["signatures"] = [{"keyid": f"{i:064x}", "sig": "00" * 64} for i in range(200)]
    site.files["2.root.json"] = json.dumps(tree).encode()
    refuses(device, site, "2.root.json: signatures", error=Malformed)


# what a fresh device cannot know


def test_a_fresh_device_believes_an_old_repository_until_its_timestamp_expires(
    site: Site, tmp_path: Path
) -> None:
    """A documented limit: it has seen nothing newer. Three days bound it."""
    old = Site()
    old.files, old.newest = dict(site.files), dict(site.newest)
    site.release("fashion", "2.0.0")
    fresh = TrustStore(tmp_path / "fresh", site.files["1.root.json"])
    takes(fresh, old, "1.1.0", "1.0.0", now=NOW + 2.9 * DAY)
    other = TrustStore(tmp_path / "other", site.files["1.root.json"])
    refuses(other, old, "expired", now=NOW + 3.1 * DAY)


def test_a_pinned_root_bounds_from_below_what_a_fresh_device_believes(
    site: Site, tmp_path: Path
) -> None:
    old = Site()
    old.files, old.newest = dict(site.files), dict(site.newest)
    site.keys["timestamp"] = [key()]
    site.turn_root({"timestamp": holders(*site.keys["timestamp"])}, site.keys["root"], epoch=2)
    site.publish({}, root_changed=True)
    fresh = TrustStore(tmp_path / "fresh", site.files["2.root.json"])
    refuses(fresh, old, "timestamp.json: .*signed by 0/1 keys")
    takes(fresh, site, "1.1.0", "1.0.0")


def test_a_file_that_the_registry_lacks_is_asked_for_again_later(
    site: Site, device: TrustStore
) -> None:
    content = site.files.pop("2.targets.json")
    refuses(device, site, "does not have it", error=Unavailable)
    site.files["2.targets.json"] = content
    takes(device, site, "1.1.0", "1.0.0")
