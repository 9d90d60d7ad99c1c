"""From a key ceremony to a device's refresh, over the real catalog and artifact store."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.registry.trust import edits
from cloud.registry.trust.edits import Holders
from cloud.registry.trust.heads import is_signed
from cloud.registry.trust.keys import create_key, load_signer
from shared.errors import Conflict, Malformed, NotTrusted, Refused, TooLarge, Unavailable, Unknown
from shared.trust.chain import Chain
from shared.trust.tuf_api import CryptoSigner, Metadata
from tests.cloud.registry.trust.house import House, house
from tests.shared.trust.site import DAY, key, manifest_of, stored


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path) as found:
        yield found


@pytest.fixture
def set_up(home: House) -> House:
    home.set_up("fashion", "digits")
    return home


def test_before_the_first_root_nothing_is_published(home: House) -> None:
    with pytest.raises(Unknown, match="no root of trust is here"):
        home.tick()
    with pytest.raises(Unknown, match="no key may name releases of fashion yet"):
        home.release("fashion", "1.0.0", home.signed_release("fashion", "1.0.0"))
    status = asyncio.run(home.repository.status(home.now))
    assert (status.epoch, status.roles, status.is_online) == (0, (), False)


def test_the_first_root_waits_for_the_first_targets(home: House) -> None:
    first = home.hand_in({"root": home.ceremony.root})
    assert first.commands == ()
    assert [one.why for one in first.waiting] == ["there is no targets yet; hand in the first one"]
    home.restarted()  # what is staged is on disk
    both = home.hand_in({"targets": home.ceremony.targets})
    assert [command.role for command in both.commands] == [
        "targets", "snapshot", "root", "timestamp",
    ]  # fmt: skip
    assert [command.file.path for command in both.commands] == [
        "1.targets.json", "1.snapshot.json", "1.root.json", "timestamp.json",
    ]  # fmt: skip
    assert not list((home.folder / "trust" / "staged").glob("*.json"))


def test_a_release_signed_by_the_operator_reaches_a_device(set_up: House) -> None:
    device = set_up.device()
    with pytest.raises(Unknown, match="nothing of it has been released"):
        set_up.sees(device)
    prepared = set_up.release("fashion", "1.0.0", set_up.signed_release("fashion", "1.0.0"))
    assert [command.role for command in prepared.commands] == [
        "model-fashion", "snapshot", "timestamp",
    ]  # fmt: skip
    assert prepared.number == 1
    assert prepared.versions["model-fashion"] == 1
    assert set_up.sees(device) == ["1.0.0"]


def test_a_registry_with_a_release_key_releases_and_retires_by_itself(set_up: House) -> None:
    with pytest.raises(NotTrusted, match="only 0 of them are here"):
        set_up.release("fashion", "1.0.0")
    set_up.restarted(release_key=True)
    device = set_up.device()
    set_up.release("fashion", "1.0.0")
    assert set_up.release("fashion", "1.1.0").number == 2
    assert set_up.sees(device) == ["1.1.0", "1.0.0"]
    set_up.retire("fashion", "1.1.0")
    assert set_up.sees(device) == ["1.0.0"]
    with pytest.raises(Unknown, match=r"1\.1\.0 is not released"):
        set_up.retire("fashion", "1.1.0")
    with pytest.raises(Unknown, match="nothing of digits is released"):
        set_up.retire("digits", "1.0.0")
    with pytest.raises(Unknown, match="keys delegate unheard-of --to"):
        set_up.release("unheard-of", "1.0.0")
    signed = set_up.signed_release("unheard-of", "1.0.0")
    with pytest.raises(Unknown, match="keys delegate unheard-of --to"):
        set_up.release("unheard-of", "1.0.0", signed)


def test_the_timestamp_is_signed_anew_before_it_expires(set_up: House) -> None:
    set_up.release("fashion", "1.0.0", set_up.signed_release("fashion", "1.0.0"))
    device = set_up.device()
    assert set_up.tick().commands == ()
    due = asyncio.run(set_up.repository.due(set_up.now))
    assert due == set_up.now + DAY
    for _ in range(40):
        set_up.later(0.99)
        set_up.tick()
        # a device a day ahead and one a day behind: both are served
        assert set_up.sees(device, now=set_up.now + DAY) == ["1.0.0"]
    assert set_up.sees(set_up.device("late"), now=set_up.now - DAY) == ["1.0.0"]
    snapshot = Metadata.from_bytes(set_up.file("snapshot")).signed
    assert snapshot.expires - set_up.now > 6 * DAY


def test_a_clock_that_ran_ahead_and_was_put_right_is_mended_at_the_next_tick(
    set_up: House,
) -> None:
    set_up.release("fashion", "1.0.0", set_up.signed_release("fashion", "1.0.0"))
    device = set_up.device()
    set_up.later(10)
    assert set_up.tick().versions.keys() == {"snapshot", "timestamp"}
    set_up.later(-10)
    with pytest.raises(NotTrusted, match="was signed on"):
        set_up.sees(device)
    assert set_up.tick().versions.keys() == {"timestamp"}
    assert set_up.sees(device) == ["1.0.0"]
    assert set_up.tick().versions == {}


def test_without_the_online_keys_nothing_is_signed(set_up: House) -> None:
    for path in set_up.ceremony.online.glob("*.pem"):
        path.unlink()
    create_key(set_up.ceremony.online / "other.pem", None)
    set_up.restarted()
    set_up.later(2)
    with pytest.raises(NotTrusted, match="timestamp: needs 1 of the keys"):
        set_up.tick()
    assert not asyncio.run(set_up.repository.status(set_up.now)).is_online


# what is handed in


def refused(home: House, role: str, content: bytes, reason: str, error: type[Refused]) -> None:
    before = home.catalog.head()
    with pytest.raises(error, match=reason):
        home.hand_in({role: content})
    assert home.catalog.head() == before
    assert not list((home.folder / "trust" / "staged").glob("*.json"))


def test_metadata_that_no_device_would_take_is_refused_before_it_is_stored(
    set_up: House,
) -> None:
    targets, signer = set_up.file("targets"), set_up.signer("targets")
    good = edits.renewed(targets, "targets", set_up.now, 365)
    refused(set_up, "targets", good, "has no signature", NotTrusted)
    foreign = edits.sign(good, "targets", [key()])
    refused(set_up, "targets", foreign, "may not sign for targets", NotTrusted)
    extra = edits.sign(good, "targets", [signer, key()])
    refused(set_up, "targets", extra, "may not sign for targets", NotTrusted)
    refused(set_up, "targets", targets, "the published version is 2, so the next is 3", Conflict)
    skipped = edits.renewed(good, "targets", set_up.now, 365)
    skipped = edits.sign(skipped, "targets", [signer])
    refused(set_up, "targets", skipped, "so the next is 3", Conflict)
    expired = edits.sign(edits.renewed(targets, "targets", set_up.now, 0), "targets", [signer])
    refused(set_up, "targets", expired, "expires on", NotTrusted)
    tampered = edits.sign(good, "targets", [signer]).replace(b"fashion/", b"digital/")
    refused(set_up, "targets", tampered, "own path|other paths", Malformed)
    refused(set_up, "targets", b"{}", "is missing", Malformed)
    refused(set_up, "targets", b"[" * 5_000_000, "at most", TooLarge)
    refused(set_up, "timestamp", set_up.file("timestamp"), "signs it itself", Malformed)
    refused(set_up, "../x", b"{}", "no role", Malformed)
    refused(set_up, "root", set_up.file("targets"), "root", Malformed)


def test_a_root_signed_by_one_of_two_waits_for_the_second(set_up: House) -> None:
    draft = edits.next_root(set_up.file("root"), set_up.now, 730)
    first = edits.sign(draft, "root", [set_up.signer("root-1")])
    prepared = set_up.hand_in({"root": first})
    assert prepared.commands == ()
    (waiting,) = prepared.waiting
    assert (waiting.role, waiting.version, waiting.missing) == ("root", 2, 1)
    assert waiting.signed == (set_up.signer("root-1").public_key.keyid,)
    again = set_up.hand_in({"root": first})  # the same once more changes nothing
    assert again.waiting == prepared.waiting
    staged = asyncio.run(set_up.repository.staged("root"))
    assert staged is not None
    assert set(Metadata.from_bytes(staged).signatures) == set(waiting.signed)
    assert asyncio.run(set_up.repository.staged("targets")) is None
    (shown,) = asyncio.run(set_up.repository.status(set_up.now)).staged
    assert shown == waiting
    second = edits.sign(draft, "root", [set_up.signer("root-3")])
    done = set_up.hand_in({"root": second})
    assert [command.role for command in done.commands] == ["root", "timestamp"]
    assert set(Metadata.from_bytes(set_up.file("root")).signatures) == {
        set_up.signer(name).public_key.keyid for name in ("root-1", "root-3")
    }


def test_another_content_under_a_staged_version_is_refused_until_that_is_discarded(
    set_up: House,
) -> None:
    one = edits.next_root(set_up.file("root"), set_up.now, 730)
    other = edits.next_root(set_up.file("root"), set_up.now, 100)
    set_up.hand_in({"root": edits.sign(one, "root", [set_up.signer("root-1")])})
    with pytest.raises(Conflict, match="another content is staged"):
        set_up.hand_in({"root": edits.sign(other, "root", [set_up.signer("root-2")])})
    asyncio.run(set_up.repository.discard("root"))
    set_up.hand_in({"root": edits.sign(other, "root", [set_up.signer("root-2")])})


def test_a_root_without_the_registrys_own_online_keys_waits(set_up: House) -> None:
    stranger = Holders((key().public_key,))
    draft = edits.next_root(set_up.file("root"), set_up.now, 730, holders={"timestamp": stranger})
    signed = edits.sign(draft, "root", [set_up.signer("root-1"), set_up.signer("root-2")])
    (waiting,) = set_up.hand_in({"root": signed}).waiting
    assert "put their files into online_keys" in waiting.why


def test_a_root_that_raises_the_epoch_may_keep_no_online_key(set_up: House) -> None:
    signers = [set_up.signer("root-1"), set_up.signer("root-2")]
    draft = edits.next_root(set_up.file("root"), set_up.now, 730, epoch=2)
    refused(set_up, "root", edits.sign(draft, "root", signers), "keeps an online key", NotTrusted)
    new = [
        create_key(set_up.ceremony.online / f"{role}-2.pem", None)
        for role in ("snapshot", "timestamp")
    ]
    set_up.restarted()
    holders = {
        role: Holders((one.public_key,))
        for role, one in zip(("snapshot", "timestamp"), new, strict=True)
    }
    draft = edits.next_root(set_up.file("root"), set_up.now, 730, holders=holders, epoch=2)
    set_up.hand_in({"root": edits.sign(draft, "root", signers)})
    device = set_up.device()
    with pytest.raises(Unknown):
        set_up.sees(device)
    assert asyncio.run(set_up.repository.status(set_up.now)).epoch == 2
    back = edits.next_root(set_up.file("root"), set_up.now, 730, epoch=1)
    refused(set_up, "root", edits.sign(back, "root", signers), "below the present", NotTrusted)


@pytest.mark.parametrize("role", ["root", "targets"])
def test_an_online_key_may_sign_for_nothing_else(set_up: House, role: str) -> None:
    online = load_signer(set_up.ceremony.online / "timestamp.pem", None).public_key
    others = (set_up.signer("root-1").public_key, set_up.signer("root-2").public_key)
    draft = edits.next_root(
        set_up.file("root"), set_up.now, 730, holders={role: Holders((online, *others), 2)}
    )
    signers = [set_up.signer("root-1"), set_up.signer("root-2")]
    signed = edits.sign(draft, "root", signers)
    refused(set_up, "root", signed, f"is an online key and may sign for {role}", NotTrusted)


@pytest.mark.parametrize("role", ["root", "targets"])
def test_metadata_that_is_valid_for_generations_is_refused(set_up: House, role: str) -> None:
    days = 365 * 70
    draft = (
        edits.next_root(set_up.file("root"), set_up.now, days)
        if role == "root"
        else edits.renewed(set_up.file(role), role, set_up.now, days)
    )
    signers = ["root-1", "root-2"] if role == "root" else ["targets"]
    signed = edits.sign(draft, role, map(set_up.signer, signers))
    refused(set_up, role, signed, "sign it for 3661 days at most", NotTrusted)


def test_a_new_targets_key_waits_for_targets_that_it_signed(set_up: House) -> None:
    device = set_up.device()
    set_up.release("fashion", "1.0.0", set_up.signed_release("fashion", "1.0.0"))
    new = create_key(set_up.keys / "targets-2.pem", None)
    draft = edits.next_root(
        set_up.file("root"), set_up.now, 730, holders={"targets": Holders((new.public_key,))}
    )
    signed = edits.sign(draft, "root", [set_up.signer("root-1"), set_up.signer("root-2")])
    (waiting,) = set_up.hand_in({"root": signed}).waiting
    assert waiting.missing == 0
    assert "the targets are not signed by enough of the keys that it names" in waiting.why
    assert set_up.sees(device) == ["1.0.0"]
    again = edits.renewed(set_up.file("targets"), "targets", set_up.now, 365)
    done = set_up.hand_in({"targets": edits.sign(again, "targets", [new])})
    assert set(done.versions) == {"root", "targets", "snapshot", "timestamp"}
    assert set_up.sees(device) == ["1.0.0"]


def test_a_new_release_key_waits_for_the_models_role(set_up: House) -> None:
    device = set_up.device()
    set_up.release("fashion", "1.0.0", set_up.signed_release("fashion", "1.0.0"))
    new = create_key(set_up.keys / "release-2.pem", None)
    targets = set_up.delegated("fashion", to=Holders((new.public_key,)))
    (waiting,) = set_up.hand_in({"targets": targets}).waiting
    assert "model-fashion is not signed by enough of the keys that it appoints" in waiting.why
    again = edits.renewed(set_up.file("model-fashion"), "model-fashion", set_up.now, 365)
    done = set_up.hand_in({"model-fashion": edits.sign(again, "model-fashion", [new])})
    assert set(done.versions) == {"targets", "model-fashion", "snapshot", "timestamp"}
    assert set_up.sees(device) == ["1.0.0"]
    with pytest.raises(NotTrusted, match="may not sign for model-fashion"):
        set_up.release("fashion", "1.1.0", set_up.signed_release("fashion", "1.1.0"))


def test_new_online_keys_are_used_from_the_root_that_names_them(set_up: House) -> None:
    device = set_up.device()
    set_up.release("fashion", "1.0.0", set_up.signed_release("fashion", "1.0.0"))
    new = {
        role: create_key(set_up.ceremony.online / f"{role}-2.pem", None)
        for role in ("snapshot", "timestamp")
    }
    set_up.restarted()  # old and new lie side by side
    holders = {role: Holders((one.public_key,)) for role, one in new.items()}
    draft = edits.next_root(set_up.file("root"), set_up.now, 730, holders=holders)
    signed = edits.sign(draft, "root", [set_up.signer("root-1"), set_up.signer("root-2")])
    done = set_up.hand_in({"root": signed})
    assert set(done.versions) == {"root", "snapshot", "timestamp"}
    assert set_up.sees(device) == ["1.0.0"]
    for role in new:
        (set_up.ceremony.online / f"{role}.pem").unlink()
    set_up.restarted()
    set_up.later(2)
    assert set(set_up.tick().versions) == {"timestamp"}
    assert set_up.sees(device) == ["1.0.0"]


# releases


def test_metadata_for_a_release_changes_that_release_alone(set_up: House) -> None:
    signer = set_up.signer("release")
    set_up.release("fashion", "1.0.0", set_up.signed_release("fashion", "1.0.0"))

    def signed(change) -> bytes:
        metadata = Metadata.from_bytes(set_up.signed_release("fashion", "1.1.0"))
        change(metadata.signed.targets)
        metadata.signatures.clear()
        return edits.sign(metadata.to_bytes(), "model-fashion", [signer])

    new, old = "fashion/1.1.0/manifest.json", "fashion/1.0.0/manifest.json"
    wrong = stored(manifest_of("fashion", "other")).sha256

    def another_manifest(targets) -> None:
        targets[new].hashes["sha256"] = wrong

    def low_number(targets) -> None:
        targets[new].unrecognized_fields["custom"]["hybridge"]["number"] = 1
        targets[old].unrecognized_fields["custom"]["hybridge"]["number"] = 2

    def drops_another(targets) -> None:
        del targets[old]

    def names_a_third(targets) -> None:
        targets["fashion/6.6.6/manifest.json"] = targets[old]
        targets[old].unrecognized_fields["custom"]["hybridge"]["number"] = 1

    for change, reason in (
        (another_manifest, "does not name the manifest of fashion 1.1.0 that is registered"),
        (low_number, "not above every other's"),
        (drops_another, "also changes 1.0.0"),
    ):
        with pytest.raises(Conflict, match=reason):
            set_up.release("fashion", "1.1.0", signed(change))
    with pytest.raises(Refused):
        set_up.release("fashion", "1.1.0", signed(names_a_third))
    with pytest.raises(Conflict, match="released and retired by its own call"):
        set_up.hand_in({"model-fashion": set_up.signed_release("fashion", "1.1.0")})
    assert set_up.sees(set_up.device()) == ["1.0.0"]


def test_a_release_by_two_people_waits_for_the_second(set_up: House) -> None:
    both = [create_key(set_up.keys / f"release-{number}.pem", None) for number in (2, 3)]
    holders = Holders(tuple(one.public_key for one in both), 2)
    set_up.hand_in({"targets": set_up.delegated("digits", to=holders)})
    first = set_up.release("digits", "1.0.0", set_up.signed_release("digits", "1.0.0", both[0]))
    assert first.commands == ()
    assert first.waiting[0].missing == 1
    # what waits for a release is published by a release alone
    assert set_up.hand_in({"targets": set_up.delegated("other", to=holders)}).versions.keys() == {
        "targets", "snapshot", "timestamp",
    }  # fmt: skip
    done = set_up.release("digits", "1.0.0", set_up.signed_release("digits", "1.0.0", both[1]))
    assert done.number == 1
    assert set_up.sees(set_up.device(), "digits") == ["1.0.0"]


def test_two_who_publish_at_once_cannot_both_win(set_up: House) -> None:
    set_up.restarted(release_key=True)
    other = House.restarted(set_up, release_key=True)

    async def both() -> None:
        prepared = [
            await one.prepare_release(
                model, "1.0.0", stored(manifest_of(model, "1.0.0")), None, set_up.now
            )
            for one, model in ((set_up.repository, "fashion"), (other, "digits"))
        ]
        set_up.catalog.apply_all(prepared[0].commands, "a", set_up.now.timestamp())
        with pytest.raises(Conflict):
            set_up.catalog.apply_all(prepared[1].commands, "b", set_up.now.timestamp())

    asyncio.run(both())
    assert set_up.sees(set_up.device()) == ["1.0.0"]
    set_up.release("digits", "1.0.0")
    assert set_up.sees(set_up.device(), "digits") == ["1.0.0"]


def test_a_crash_between_publishing_and_tidying_leaves_nothing_staged(set_up: House) -> None:
    draft = edits.next_root(set_up.file("root"), set_up.now, 730)
    signed = edits.sign(draft, "root", [set_up.signer("root-1"), set_up.signer("root-2")])

    async def crash() -> None:
        prepared = await set_up.repository.prepare({"root": signed}, set_up.now)
        set_up.catalog.apply_all(prepared.commands, "operator", set_up.now.timestamp())

    asyncio.run(crash())
    set_up.restarted()
    done = set_up.hand_in({"targets": set_up.delegated("another")})
    assert done.waiting == ()
    assert not list((set_up.folder / "trust" / "staged").glob("*.json"))


def test_a_staged_file_that_the_disk_broke_is_dropped(set_up: House) -> None:
    draft = edits.next_root(set_up.file("root"), set_up.now, 730)
    one, two = (edits.sign(draft, "root", [set_up.signer(f"root-{n}")]) for n in (1, 2))
    set_up.hand_in({"root": one})
    path = set_up.folder / "trust" / "staged" / "root.json"
    path.write_bytes(path.read_bytes()[:-20])
    assert asyncio.run(set_up.repository.status(set_up.now)).staged == ()
    assert not path.exists()
    (waiting,) = set_up.hand_in({"root": two}).waiting
    assert waiting.missing == 1


def test_a_root_that_the_store_lost_stops_no_start_and_is_read_when_it_is_back(
    set_up: House, caplog: pytest.LogCaptureFixture
) -> None:
    head = set_up.catalog.head()
    sha256 = set_up.catalog.trust_file("root", None).sha256
    (place,) = set_up.folder.rglob(sha256)
    away = place.rename(set_up.folder / "away")
    repository = set_up.restarted()
    asyncio.run(repository.start())
    assert "root_of_trust_not_read" in caplog.text
    with pytest.raises(Unknown, match="no root of trust is here"):
        repository.sign_head(head)
    with pytest.raises(Unavailable, match=r"1\.root\.json: the catalog names it and the artifact"):
        set_up.tick()
    away.rename(place)
    set_up.tick()
    assert is_signed(Chain(set_up.ceremony.root).root, head, repository.sign_head(head))


@pytest.mark.parametrize("role", ["snapshot", "timestamp"])
@pytest.mark.parametrize("is_there", [False, True], ids=["lost", "flipped"])
def test_what_this_registry_signs_itself_is_signed_anew_where_the_store_lost_it(
    set_up: House, role: str, *, is_there: bool
) -> None:
    set_up.release("fashion", "1.0.0", set_up.signed_release("fashion", "1.0.0"))
    device = set_up.device()
    assert set_up.sees(device) == ["1.0.0"]
    before = json.loads(set_up.file(role))["signed"]["version"]
    (place,) = set_up.folder.rglob(set_up.catalog.trust_file(role, None).sha256)
    if is_there:
        place.write_bytes(place.read_bytes().replace(b"version", b"Version"))
    else:
        place.unlink()
    assert set_up.tick().versions[role] == before + 1
    assert set_up.tick().versions == {}
    assert set_up.sees(device) == ["1.0.0"]
    set_up.release("fashion", "1.1.0", set_up.signed_release("fashion", "1.1.0"))
    assert set_up.sees(device) == ["1.1.0", "1.0.0"]


def test_a_store_that_is_away_has_lost_nothing(set_up: House) -> None:
    set_up.release("fashion", "1.0.0", set_up.signed_release("fashion", "1.0.0"))
    store = next(set_up.folder.rglob("artifacts")) / "sha256"
    store.rename(store.with_name("away"))
    store.write_bytes(b"")
    with pytest.raises(Unavailable, match="Not a directory"):
        set_up.tick()


def test_the_status_names_roles_keys_and_expiries(set_up: House) -> None:
    set_up.release("fashion", "1.0.0", set_up.signed_release("fashion", "1.0.0"))
    status = asyncio.run(set_up.repository.status(set_up.now))
    assert status.epoch == 1
    assert status.is_online
    assert {one.role: (one.version, one.threshold, len(one.keys)) for one in status.roles} == {
        "timestamp": (3, 1, 1), "snapshot": (3, 1, 1), "targets": (2, 1, 1),
        "model-fashion": (1, 1, 1), "root": (1, 2, 3),
    }  # fmt: skip
    assert status.roles[0].role == "timestamp"


def test_every_file_is_in_the_catalogs_log_and_among_the_needed(set_up: House) -> None:
    set_up.release("fashion", "1.0.0", set_up.signed_release("fashion", "1.0.0"))
    entries = [entry for entry in set_up.catalog.log(0, 1_000) if entry.kind == "trust.published"]
    published = {json.loads(json.dumps(entry.change))["file"]["sha256"] for entry in entries}
    assert len(published) == 10
    assert published <= set_up.catalog.needed_artifacts()
    assert asyncio.run(set_up.artifacts.has(published)) == published


def test_a_signer_that_is_none_is_named(set_up: House) -> None:
    content = set_up.signed_release("fashion", "1.0.0", CryptoSigner.generate_ed25519())
    with pytest.raises(NotTrusted, match="may not sign for model-fashion"):
        set_up.release("fashion", "1.0.0", content)
