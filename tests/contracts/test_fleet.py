"""The fleet's store, on SQLite and on a real PostgreSQL: what is promised, and to who races."""

import multiprocessing
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from cloud.fleet.desired_state import UNNUMBERED
from cloud.fleet.device_settings import DeviceSettings, PresenceSettings
from cloud.fleet.devices import Fleet
from cloud.fleet.documents import Baseline, Certificate, Group, ProfileRef
from cloud.fleet.heard import PresenceChange, Seen
from cloud.fleet.identity.enrolment import presented
from cloud.fleet.rollout_keeping import RolloutSave
from cloud.fleet.store.database import FleetDatabase
from cloud.fleet.store.schema import metadata
from cloud.rollouts.documents import (
    DeviceInRollout,
    ModelSubject,
    Phase,
    ProfileSubject,
    RolloutSpec,
    RolloutStatus,
    RolloutView,
)
from cloud.rollouts.events import Note
from shared.errors import (
    Conflict,
    Forbidden,
    HybridgeError,
    Malformed,
    NotTrusted,
    Overloaded,
    Unknown,
)
from shared.fleet.desired import DesiredModel, DesiredProfile
from shared.fleet.profile import ProfileSettings, digest
from shared.fleet.reported import (
    DevicePhase,
    ReportedInventory,
    ReportedModel,
    ReportedProfile,
)

NOW = 1_700_000_000.0
SHA = {"1.0.0": "a" * 64, "1.1.0": "b" * 64, "2.0.0": "c" * 64}
HOSTILE = ["", "a\x00b", "\ud800", "../x", "x" * 10_000, "%", "' OR 1=1", "\n"]


@pytest.fixture(scope="module")
def databases(tmp_path_factory, postgres):
    """One of each kind for all tests: a new one would compile every statement anew."""
    urls = {
        "sqlite": f"sqlite:///{tmp_path_factory.mktemp('fleet') / 'fleet.db'}",
        "postgresql": postgres.new_database(),
    }
    found = {kind: FleetDatabase(url) for kind, url in urls.items()}
    for database in found.values():
        database.open()
    yield {kind: (urls[kind], database) for kind, database in found.items()}
    for database in found.values():
        database.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def at(request, databases):
    """Of each kind in turn the URL and the database, with empty tables."""
    url, database = databases[request.param]
    # of so few rows quicker than TRUNCATE
    database.write(lambda c: [c.execute(table.delete()) for table in metadata.tables.values()])
    return url, database


@contextmanager
def opened(at: tuple[str, FleetDatabase], **settings: Any) -> Iterator[Fleet]:
    """As a process that comes and goes has it."""
    yield Fleet(at[1], DeviceSettings(**{"needs_enrolment": False, **settings}))


@pytest.fixture
def fleet(at):
    with opened(at) as it:
        yield it


def model(sequence: int = 1, version: str = "1.0.0", **values: Any) -> ReportedModel:
    return ReportedModel(**{
        "sequence": sequence, "at": NOW, "phase": DevicePhase.COMMITTED, "model": "m",
        "version": version, "manifest_sha256": SHA[version], **values,
    })  # fmt: skip


def inventory(sequence: int = 1, **values: Any) -> ReportedInventory:
    return ReportedInventory(**{
        "sequence": sequence, "at": NOW, "agent": "1", "system": "Linux", "arch": "aarch64",
        "cpu": "x", "cores": 4, "memory_bytes": 1, "disk_bytes": 1, **values,
    })  # fmt: skip


def baseline(version: str) -> Baseline:
    return Baseline(version=version, manifest_sha256=SHA[version])


def order_of(version: str, **values: Any) -> DesiredModel:
    return DesiredModel(
        generation=UNNUMBERED, model="m", version=version, manifest_sha256=SHA[version], **values
    )


def came(fleet: Fleet, *devices: str) -> None:
    """Each is there and runs m 1.0.0; it has been looked at."""
    fleet.record([(device, model()) for device in devices], NOW)
    fleet.settle(NOW)


def view(
    rollout: str = "r1", status: str = "running", group: str = "all", revision: int = 1,
    version: str = "2.0.0", profile: str | None = None, **values: Any,
) -> RolloutView:  # fmt: skip
    subject: ModelSubject | ProfileSubject = ModelSubject(
        model="m", version=version, manifest_sha256=SHA[version]
    )
    if profile is not None:
        subject = ProfileSubject(name=profile, version=1, sha256="d" * 64)
    spec = RolloutSpec(subject=subject, group=group, seed="s")
    return RolloutView(
        id=rollout, spec=spec, status=RolloutStatus(status), created_by="ann", created_at=NOW,
        revision=revision, **values,
    )  # fmt: skip


def queued(*devices: str, phase: Phase = Phase.QUEUED) -> list[tuple[DeviceInRollout, bytes]]:
    return [
        (DeviceInRollout(device=one, stage=1, phase=phase), f"record of {one}".encode())
        for one in devices
    ]


def generations(orders: Sequence[tuple[str, Any]]) -> list[tuple[str, str, int]]:
    return [(device, getattr(one, "version", ""), one.generation) for device, one in orders]


def kinds(fleet: Fleet, **which: str) -> list[str]:
    return [event.kind for event in fleet.events(0, 1000, **which)]


# What devices say


def test_a_device_is_what_it_said_last(fleet):
    fleet.record([("a", PresenceChange(True)), ("a", model()), ("a", inventory())], NOW)
    fleet.record([("a", ReportedProfile(sequence=1, at=NOW)), ("a", model(2, "1.1.0"))], NOW + 5)
    found = fleet.device("a")
    assert (found.model, found.inventory) == (model(2, "1.1.0"), inventory())
    assert found.profile == ReportedProfile(sequence=1, at=NOW)
    assert (found.presence.online, found.presence.since) == (True, NOW)
    assert (found.presence.last_seen, found.group) == (NOW + 5, "all")


def test_copies_and_older_reports_are_counted_and_change_nothing(fleet):
    fleet.record([("a", model(5, "1.1.0"))], NOW)
    found = fleet.record([("a", model(5)), ("a", model(4)), ("a", model(6)), ("a", model(6))], NOW)
    assert found.refused == {"old report": 3}
    assert found.accepted == (("a", model(6)),)
    assert fleet.device("a").model == model(6)


def test_a_stranger_is_refused_where_enrolment_is_needed(at):
    with opened(at, needs_enrolment=True) as fleet:
        found = fleet.record([("a", Seen()), ("b\x00", Seen())], NOW)
        assert (found.refused, found.strangers) == ({"unknown device": 2}, {"a", "b\x00"})
        assert fleet.ids() == []


@pytest.mark.parametrize("name", [*HOSTILE, "-a", "a/b"])
def test_a_device_with_a_name_that_is_none_is_no_device(fleet, name):
    assert fleet.record([(name, Seen())], NOW).refused == {"unknown device": 1}
    assert fleet.counts() == (0, 0)


def test_there_is_room_for_so_many_devices(at):
    with opened(at, devices_max=2) as fleet:
        found = fleet.record([(name, Seen()) for name in ("a", "b", "c", "a")], NOW)
        assert (found.new, found.refused) == (("a", "b"), {"no room": 1})
        assert fleet.ids() == ["a", "b"]


def test_hostile_words_in_a_report_are_kept_as_they_are(fleet):
    odd = inventory(arch="a\x00b", engines={"x\x00": "1"}, system="\x00\x1b[2J")
    fleet.record([("a", odd), ("a", model(why="\x00"))], NOW)
    assert fleet.device("a").inventory == odd
    assert fleet.facts()[0].arch == ""


def test_a_flapping_device_is_quarantined_for_a_time(at):
    presence = PresenceSettings(changes_max=2, window_s=100, quarantine_s=50)
    with opened(at, presence=presence) as fleet:
        for n in range(3):
            found = fleet.record([("a", PresenceChange(n % 2 == 0))], NOW + n)
            assert found.quarantined == ()
        assert fleet.device("a").presence.flaps == 2
        found = fleet.record([("a", PresenceChange(False))], NOW + 3)
        assert found.quarantined == ("a",)
        assert fleet.device("a").quarantine.until == NOW + 53
        assert fleet.record([], NOW + 52.9).returned == ()
        assert fleet.record([], NOW + 53).returned == ("a",)
        assert fleet.device("a").quarantine is None
        assert kinds(fleet, device="a") == ["device_new", "quarantined", "quarantine_ended"]


def test_a_quarantine_of_a_clock_that_was_years_ahead_is_over_when_it_is_set_back(at):
    presence = PresenceSettings(changes_max=2, window_s=100, quarantine_s=50)
    year = 366 * 86_400.0
    with opened(at, presence=presence) as fleet:
        for n in range(4):
            fleet.record([("a", PresenceChange(n % 2 == 0))], NOW + year + n)
        assert fleet.device("a").quarantine is not None
        assert fleet.record([], NOW).returned == ("a",)
        assert fleet.device("a").quarantine is None


def test_an_operators_quarantine_ends_when_he_says_so(fleet):
    came(fleet, "a")
    fleet.quarantine("a", "smells", None, "ann", NOW)
    assert fleet.record([], NOW + 1e9).returned == ()
    assert fleet.device("a").quarantine.why == "smells"
    assert fleet.end_quarantine("a", "aired", "ann", NOW).quarantine is None


# Operators


def test_labels_are_replaced_and_compared_with_the_revision(fleet):
    came(fleet, "a")
    first = fleet.label("a", {"site": "lyon", "hw": "pi5"}, "ann", NOW, 0)
    assert (first.labels, first.revision) == ({"hw": "pi5", "site": "lyon"}, 1)
    with pytest.raises(Conflict, match="device a is of revision 1, not 0"):
        fleet.label("a", {}, "bob", NOW, 0)
    assert fleet.label("a", {"site": "lyon", "hw": "pi5"}, "ann", NOW).revision == 1
    assert fleet.label("a", {}, "ann", NOW).labels == {}


@pytest.mark.parametrize(
    "labels", [{"Site": "x"}, {"s": ""}, {"s": "a b"}, {"device/x": "y"}, {"s": "\x00"}]
)
def test_labels_that_are_none_are_refused(fleet, labels):
    came(fleet, "a")
    with pytest.raises(Malformed, match="labels"):
        fleet.label("a", labels, "ann", NOW)


def test_two_operators_at_once_and_one_of_them_wins(fleet):
    came(fleet, "a")
    outcomes = _at_once(
        lambda n: fleet.label("a", {"n": str(n)}, f"operator-{n}", NOW, 0), 6
    )  # fmt: skip
    assert sorted(outcomes) == ["Conflict"] * 5 + ["done"]
    assert fleet.device("a").revision == 1


def test_a_revoked_device_is_not_heard_and_its_certificates_are_on_the_list(fleet):
    came(fleet, "a")
    for serial in ("ab", "cd"):
        fleet.add_certificate("a", _certificate(serial), NOW)
    assert fleet.revoke("a", "stolen", "ann", NOW + 1).presence.online is False
    assert fleet.revoked_serials() == {"ab": NOW + 1, "cd": NOW + 1}
    assert fleet.certificate("ab")[1].why_revoked == "stolen"
    assert fleet.record([("a", Seen())], NOW).refused == {"revoked": 1}
    with pytest.raises(Conflict, match="revoked"):
        fleet.add_certificate("a", _certificate("ef"), NOW)


def test_a_removed_devices_certificates_stay_on_the_list(fleet):
    came(fleet, "a")
    fleet.add_certificate("a", _certificate("ab"), NOW)
    fleet.remove("a", "ann", NOW)
    with pytest.raises(Unknown, match="no device 'a'"):
        fleet.device("a")
    assert list(fleet.revoked_serials()) == ["ab"]
    assert fleet.forget_published() == 0


@pytest.mark.parametrize("name", HOSTILE)
def test_names_from_outside_that_are_none_are_unknown(fleet, name):
    for call in (
        lambda: fleet.device(name), lambda: fleet.group_of(name), lambda: fleet.group(name),
        lambda: fleet.profile(name, 1), lambda: fleet.rollout(name),
        lambda: fleet.label(name, {}, "ann", NOW), lambda: fleet.revoke_token(name, "ann", NOW),
        lambda: fleet.remove(name, "ann", NOW), lambda: fleet.rollout_devices(name),
    ):  # fmt: skip
        with pytest.raises(Unknown):
            call()
    came(fleet, "a")
    fleet.save_rollout(view(), b"", now=NOW)
    with pytest.raises(Malformed):
        fleet.set_baseline("all", name, baseline("1.0.0"), "ann", NOW)
    if name:
        for page in (fleet.devices, lambda *a: fleet.rollout_devices("r1", None, a[1])):
            with pytest.raises(Malformed, match="after is"):
                page("", name)
    for which in (fleet.rollouts, lambda text: fleet.rollout_devices("r1", text)):
        with pytest.raises(Malformed, match="there are"):
            which(name)
    with pytest.raises(Unknown):
        fleet.add_certificate(name, _certificate("ab"), NOW)
    assert fleet.profiles(name) == []
    assert fleet.certificate(name) is None


@pytest.mark.parametrize("actor", ["", "a\nb", "a\x00", "x" * 201])
def test_an_actor_has_a_name_of_one_line(fleet, actor):
    came(fleet, "a")
    for call in (
        lambda: fleet.label("a", {}, actor, NOW),
        lambda: fleet.put_group(Group(name="g"), actor, NOW),
        lambda: fleet.set_baseline("all", "m", baseline("1.0.0"), actor, NOW),
        lambda: fleet.make_token(actor, NOW, 3600),
        lambda: fleet.remove("a", actor, NOW),
    ):
        with pytest.raises(Malformed, match="caller's name"):
            call()


def test_pages_of_devices_and_selectors(fleet):
    came(fleet, *(f"d{n}" for n in range(7)))
    for n in range(0, 7, 2):
        fleet.label(f"d{n}", {"even": "yes"}, "ann", NOW)
    page, following = fleet.devices("even=yes", "", 2)
    assert ([one.id for one in page], following) == (["d0", "d2"], "d2")
    page, following = fleet.devices("even=yes", following, 2)
    assert ([one.id for one in page], following) == (["d4", "d6"], None)
    assert fleet.ids("!even") == ["d1", "d3", "d5"]
    assert fleet.ids("device/model=m,device/version!=1.0.0") == []
    with pytest.raises(Malformed, match="selector: at 7"):
        fleet.devices("even==")
    with pytest.raises(Malformed, match="limit is 0"):
        fleet.devices("", "", 0)


# Groups


def test_devices_move_with_their_labels_and_with_the_groups(fleet):
    came(fleet, "a", "b")
    fleet.label("a", {"site": "lyon"}, "ann", NOW)
    fleet.put_group(Group(name="lyon", selector="site=lyon"), "ann", NOW)
    assert (fleet.group_of("a"), fleet.group_of("b")) == ("lyon", "all")
    assert fleet.label("b", {"site": "lyon"}, "ann", NOW).group == "lyon"
    fleet.remove_group("lyon", "ann", NOW)
    assert {fleet.group_of("a"), fleet.group_of("b")} == {"all"}
    assert [group.name for group in fleet.groups()] == ["all"]


def test_a_group_by_hardware_takes_a_device_once_it_says_what_it_is(fleet):
    fleet.put_group(Group(name="arm", selector="device/arch=aarch64"), "ann", NOW)
    fleet.set_baseline("arm", "m", baseline("1.1.0"), "ann", NOW)
    fleet.record([("a", model())], NOW)
    assert (fleet.settle(NOW), fleet.group_of("a")) == ([], "all")
    fleet.record([("a", inventory())], NOW)
    assert generations(fleet.settle(NOW)) == [("a", "1.1.0", 1)]
    assert fleet.group_of("a") == "arm"


def test_who_a_new_selector_brings_gets_what_the_group_has(fleet):
    came(fleet, "a")
    fleet.label("a", {"site": "lyon"}, "ann", NOW)
    fleet.put_group(Group(name="g", selector="site=paris"), "ann", NOW)
    fleet.set_baseline("g", "m", baseline("1.1.0"), "ann", NOW)
    assert fleet.settle(NOW) == []
    fleet.put_group(Group(name="g", selector="site=lyon"), "ann", NOW)
    assert generations(fleet.settle(NOW)) == [("a", "1.1.0", 1)]


def test_a_group_keeps_what_it_has_when_its_selector_changes(fleet):
    fleet.put_group(Group(name="g", selector="x", models={"m": baseline("2.0.0")}), "ann", NOW, 0)
    assert fleet.group("g").models == {}
    fleet.set_baseline("g", "m", baseline("1.1.0"), "ann", NOW)
    changed = fleet.put_group(Group(name="g", selector="y"), "ann", NOW, 2)
    assert (changed.models, changed.revision) == ({"m": baseline("1.1.0")}, 3)
    with pytest.raises(Conflict, match="group g is of revision 3, not 2"):
        fleet.put_group(Group(name="g", selector="z"), "bob", NOW, 2)
    assert fleet.put_group(Group(name="g", selector="y"), "ann", NOW).revision == 3


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (Group(name="g", selector="site="), "selector: at 6"),
        (Group(name="g", selector="device/online=true"), "changes by itself"),
        (Group(name="all", selector="site=lyon"), "group all has those that no other takes"),
    ],
)
def test_a_group_that_cannot_be_is_refused(fleet, group, words):
    with pytest.raises(Malformed, match=words):
        fleet.put_group(group, "ann", NOW)


def test_there_is_room_for_so_many_groups(at):
    with opened(at, groups_max=2) as fleet:
        fleet.put_group(Group(name="g", selector="x"), "ann", NOW)
        with pytest.raises(Overloaded, match="2 groups"):
            fleet.put_group(Group(name="h", selector="x"), "ann", NOW)
        fleet.put_group(Group(name="g", selector="y"), "ann", NOW)


def test_nobody_moves_between_groups_in_the_middle_of_a_rollout(fleet):
    came(fleet, "a", "b")
    fleet.label("b", {"site": "lyon"}, "ann", NOW)
    fleet.save_rollout(view(), b"", queued("a", "b"), now=NOW)
    with pytest.raises(Conflict, match=r"device b would change its group .* rollout r1"):
        fleet.put_group(Group(name="lyon", selector="site=lyon"), "ann", NOW)
    assert [group.name for group in fleet.groups()] == ["all"]
    fleet.put_group(Group(name="paris", selector="site=paris"), "ann", NOW)
    with pytest.raises(Conflict, match=r"device a would change its group .* rollout r1"):
        fleet.label("a", {"site": "paris"}, "ann", NOW)
    assert fleet.device("a").labels == {}
    fleet.save_rollout(view(status="succeeded", revision=1), b"", now=NOW)
    assert fleet.label("a", {"site": "paris"}, "ann", NOW).group == "paris"


def test_a_device_that_turns_out_to_be_another_groups_moves_when_its_rollout_has_ended(fleet):
    fleet.put_group(Group(name="arm", selector="device/arch=aarch64"), "ann", NOW)
    came(fleet, "a")
    fleet.save_rollout(view(), b"", queued("a"), now=NOW)
    fleet.record([("a", inventory())], NOW)
    fleet.settle(NOW)
    assert fleet.group_of("a") == "all"
    fleet.save_rollout(view(status="rolled_back"), b"", now=NOW)
    fleet.settle(NOW)
    assert fleet.group_of("a") == "arm"


def test_a_group_with_a_rollout_stays(fleet):
    fleet.put_group(Group(name="lyon", selector="site=lyon"), "ann", NOW)
    fleet.save_rollout(view(group="lyon"), b"", now=NOW)
    with pytest.raises(Conflict, match="rollout r1 runs in group lyon"):
        fleet.remove_group("lyon", "ann", NOW)
    with pytest.raises(Conflict, match="group all is always there"):
        fleet.remove_group("all", "ann", NOW)


# Profiles


def test_a_profile_is_immutable(fleet):
    first = fleet.push_profile("cam", 1, ProfileSettings(telemetry_s=5), "ann", NOW)
    assert first.sha256 == digest(ProfileSettings(telemetry_s=5))
    assert fleet.push_profile("cam", 1, ProfileSettings(telemetry_s=5), "bob", NOW + 1) == first
    with pytest.raises(Conflict, match=r"other settings.*push version 2"):
        fleet.push_profile("cam", 1, ProfileSettings(telemetry_s=6), "ann", NOW)
    fleet.push_profile("cam", 2, ProfileSettings(telemetry_s=6), "ann", NOW)
    assert [one.version for one in fleet.profiles("cam")] == [1, 2]
    with pytest.raises(Malformed, match="profile: name"):
        fleet.push_profile("Cam\x00", 1, ProfileSettings(), "ann", NOW)


def test_a_groups_profile_reaches_its_devices(fleet):
    came(fleet, "a")
    with pytest.raises(Unknown, match="no profile 'cam' 1; push it first"):
        fleet.set_group_profile("all", ProfileRef(name="cam", version=1), "ann", NOW)
    pushed = fleet.push_profile("cam", 1, ProfileSettings(telemetry_s=5), "ann", NOW)
    fleet.set_group_profile("all", ProfileRef(name="cam", version=1), "ann", NOW)
    ((device, desired),) = fleet.settle(NOW)
    assert (device, desired) == (
        "a",
        DesiredProfile(
            generation=1, name="cam", version=1, sha256=pushed.sha256, settings=pushed.settings
        ),
    )  # fmt: skip
    fleet.set_group_profile("all", None, "ann", NOW)
    assert fleet.settle(NOW) == []
    assert fleet.device("a").desired_profile == desired


# Tokens


def _certificate(serial: str) -> Certificate:
    return Certificate(serial=serial, not_before=NOW, not_after=NOW + 86_400, issued_at=NOW)


def _token(fleet: Fleet, **values: Any) -> tuple[str, str]:
    shown = presented(fleet.make_token("ann", NOW, 3600, **values)[1])
    return shown.id, shown.secret


def test_a_token_enrols_one_device(at):
    with opened(at, needs_enrolment=True) as fleet:
        fleet.put_group(Group(name="lyon", selector="site=lyon"), "ann", NOW)
        token = _token(fleet, labels={"site": "lyon"})
        fleet.use_token(*token, "a", NOW + 1, _certificate("ab"))
        found = fleet.device("a")
        assert (found.labels, found.group, found.enrolled_at) == (
            {"site": "lyon"}, "lyon", NOW + 1
        )  # fmt: skip
        assert [one.serial for one in found.certificates] == ["ab"]
        assert fleet.tokens()[0].used_for == "a"
        with pytest.raises(Conflict, match="was used for a"):
            fleet.use_token(*token, "b", NOW + 2)
        assert fleet.record([("a", Seen())], NOW).refused == {}


def test_of_devices_that_race_with_one_token_one_wins(fleet):
    token = _token(fleet)
    outcomes = _at_once(lambda n: fleet.use_token(*token, f"d{n}", NOW, _certificate(f"a{n}")), 6)
    assert sorted(outcomes) == ["Conflict"] * 5 + ["done"]
    assert fleet.counts() == (1, 0)


def test_a_wrong_secret_a_late_token_and_another_device_are_refused(fleet):
    name, secret = _token(fleet, device="a")
    with pytest.raises(NotTrusted):
        fleet.use_token(name, "2" * 32, "a", NOW)
    with pytest.raises(NotTrusted, match="expired"):
        fleet.use_token(name, secret, "a", NOW + 3600)
    with pytest.raises(Forbidden):
        fleet.use_token(name, secret, "b", NOW)
    fleet.revoke_token(name, "ann", NOW)
    with pytest.raises(NotTrusted):
        fleet.use_token(name, secret, "a", NOW)
    assert fleet.counts() == (0, 0)


def test_a_token_for_newcomers_does_not_take_another_devices_place(fleet):
    fleet.use_token(*_token(fleet), "a", NOW, _certificate("ab"))
    with pytest.raises(Conflict, match="device a is enrolled already"):
        fleet.use_token(*_token(fleet), "a", NOW)
    fleet.revoke("a", "lost", "ann", NOW)
    with pytest.raises(Conflict, match="device a is enrolled already"):
        fleet.use_token(*_token(fleet), "a", NOW)
    fleet.use_token(*_token(fleet, device="a"), "a", NOW + 9, _certificate("cd"))
    found = fleet.device("a")
    assert found.revoked_at is None
    assert [one.revoked_at is None for one in found.certificates] == [False, True]


def test_a_device_that_is_enrolled_anew_counts_its_reports_from_the_beginning(fleet):
    fleet.use_token(*_token(fleet), "a", NOW)
    fleet.record([("a", model(900))], NOW)
    fleet.use_token(*_token(fleet, device="a"), "a", NOW)
    assert fleet.record([("a", model(1, "1.1.0"))], NOW).refused == {}


def test_the_bounds_of_tokens_and_certificates(at):
    with opened(at, tokens_max=2, certificates_max=2, certificates_kept_s=10) as fleet:
        _token(fleet)
        _token(fleet)
        with pytest.raises(Overloaded, match="2 tokens"):
            _token(fleet)
        fleet.make_token("ann", NOW + 3601, 3600)  # the others' time is over
        came(fleet, "a")
        fleet.add_certificate("a", _certificate("ab"), NOW)
        with pytest.raises(Conflict, match="certificate ab was issued before"):
            fleet.add_certificate("a", _certificate("ab"), NOW)
        fleet.add_certificate("a", _certificate("cd"), NOW)
        with pytest.raises(Overloaded, match="renews too often"):
            fleet.add_certificate("a", _certificate("ef"), NOW)
        fleet.add_certificate("a", _certificate("ef"), NOW + 86_411)
        with pytest.raises(Malformed, match="ttl_s"):
            fleet.make_token("ann", NOW, 40 * 86_400)


def test_a_device_whose_certificate_a_thief_renewed_comes_back(at):
    """He may fill its room; revoking the device and enrolling it anew makes room again."""
    with opened(at, certificates_max=2) as fleet:
        came(fleet, "a")
        for serial in ("ab", "cd"):
            fleet.add_certificate("a", _certificate(serial), NOW)
        with pytest.raises(Overloaded, match="revoke it and enrol it anew"):
            fleet.add_certificate("a", _certificate("ef"), NOW)
        fleet.revoke("a", "stolen", "ann", NOW + 1)
        fleet.use_token(*_token(fleet, device="a"), "a", NOW + 3, _certificate("ef"))
        assert sorted(fleet.revoked_serials()) == ["ab", "cd"]


# Desired state


def test_orders_get_generations_of_each_device_and_section(fleet):
    came(fleet, "a", "b")
    orders = [("a", order_of("1.1.0")), ("b", order_of("1.1.0")), ("nobody", order_of("1.1.0"))]
    assert generations(fleet.order(orders, NOW)) == [("a", "1.1.0", 1), ("b", "1.1.0", 1)]
    assert fleet.order(orders, NOW) == []
    assert generations(fleet.order([("a", order_of("2.0.0"))], NOW)) == [("a", "2.0.0", 2)]
    twice = [("a", order_of("1.1.0")), ("a", order_of("1.0.0"))]
    assert generations(fleet.order(twice, NOW)) == [("a", "1.0.0", 4)]
    assert fleet.device("a").desired_model.generation == 4


def test_what_the_broker_does_not_have_yet_is_known_after_a_crash(at):
    with opened(at) as fleet:
        came(fleet, "a", "b")
        orders = fleet.order([("a", order_of("1.1.0")), ("b", order_of("1.1.0"))], NOW)
        fleet.published([("a", "model", 1)])
    with opened(at) as fleet:
        assert fleet.unpublished() == orders[1:]
        fleet.order([("b", order_of("2.0.0"))], NOW)
        fleet.published([("b", "model", 1)])  # the word for the one before comes late
        assert generations(fleet.unpublished()) == [("b", "2.0.0", 2)]
        fleet.published([("b", "model", 2)])
        assert fleet.unpublished() == []
        assert fleet.forget_published() == 2
        assert generations(fleet.unpublished()) == [("a", "1.1.0", 1), ("b", "2.0.0", 2)]


def test_newcomers_get_what_their_group_has(fleet):
    fleet.set_baseline("all", "m", baseline("1.1.0"), "ann", NOW)
    fleet.record([("a", Seen())], NOW)
    assert fleet.settle(NOW) == []  # which model it can run, it did not say
    fleet.record([("a", model())], NOW)
    assert generations(fleet.settle(NOW)) == [("a", "1.1.0", 1)]
    assert fleet.settle(NOW) == []


def test_settling_goes_in_steps(fleet):
    fleet.set_baseline("all", "m", baseline("1.1.0"), "ann", NOW)
    fleet.record([(f"d{n}", model()) for n in range(5)], NOW)
    assert [len(fleet.settle(NOW, 2)) for _ in range(4)] == [2, 2, 1, 0]


def test_a_device_comes_back_to_a_region_that_lost_its_store(fleet):
    """On its disk is a generation that the new store never gave."""
    fleet.set_baseline("all", "m", baseline("1.1.0"), "ann", NOW)
    fleet.record([("a", model(generation=40))], NOW)
    assert generations(fleet.settle(NOW)) == [("a", "1.1.0", 41)]
    fleet.record([("a", model(2, generation=90))], NOW)
    assert generations(fleet.settle(NOW)) == [("a", "1.1.0", 91)]


def test_a_device_in_a_rollout_is_the_rollouts_and_then_the_groups(fleet):
    came(fleet, "a", "b")
    orders = [("a", order_of("2.0.0", rollout="r1", audit_share=0.05))]
    fleet.save_rollout(view(), b"", queued("a"), now=NOW, orders=orders)
    fleet.record([("c", model())], NOW)
    with pytest.raises(Conflict, match="rollout r1 moves m in group all"):
        fleet.set_baseline("all", "m", baseline("1.1.0"), "ann", NOW)
    fleet.label("a", {"x": "y"}, "ann", NOW)
    assert fleet.settle(NOW) == []
    done = view(status="succeeded")
    fleet.save_rollout(done, b"", now=NOW, sets_baseline=True)
    assert fleet.group("all").models == {"m": baseline("2.0.0")}
    found = dict(fleet.settle(NOW))
    assert {d: one.generation for d, one in found.items()} == {"a": 2, "b": 1, "c": 1}
    assert {one.rollout for one in found.values()} == {None}  # nobody watches any more


def test_after_a_rollback_devices_are_the_groups_again(fleet):
    fleet.set_baseline("all", "m", baseline("1.0.0"), "ann", NOW)
    came(fleet, "a")
    orders = [("a", order_of("2.0.0", rollout="r1", audit_share=0.05))]
    fleet.save_rollout(view(), b"", queued("a"), now=NOW, orders=orders)
    assert fleet.settle(NOW) == []
    orders = [("a", order_of("1.0.0", rollout="r1", undo=True))]
    fleet.save_rollout(view(status="rolled_back"), b"", now=NOW, orders=orders)
    ((_, desired),) = fleet.settle(NOW)
    assert desired == order_of("1.0.0").model_copy(update={"generation": 4})


def test_an_aborted_rollout_leaves_its_devices_as_they_are(fleet):
    fleet.set_baseline("all", "m", baseline("1.0.0"), "ann", NOW)
    came(fleet, "a", "b")
    orders = [("a", order_of("2.0.0", rollout="r1"))]
    fleet.save_rollout(view(), b"", queued("a", "b"), now=NOW, orders=orders)
    fleet.save_rollout(view(status="aborted"), b"", now=NOW)
    fleet.label("a", {"x": "y"}, "ann", NOW)
    assert fleet.settle(NOW) == []
    assert fleet.device("a").desired_model.version == "2.0.0"
    fleet.set_baseline("all", "m", baseline("1.0.0"), "ann", NOW)
    assert generations(fleet.settle(NOW)) == [("a", "1.0.0", 3)]


def test_a_rollout_that_takes_its_devices_back_decides_about_them_until_they_are_back(fleet):
    came(fleet, "a")
    fleet.save_rollout(view(), b"", queued("a"), now=NOW)
    undoing = view(status="aborted", undoing=True)
    fleet.save_rollout(undoing, b"", now=NOW, orders=[("a", order_of("1.1.0", rollout="r1"))])
    with pytest.raises(Conflict, match="rollout r1 moves m in group all"):
        fleet.set_baseline("all", "m", baseline("1.0.0"), "ann", NOW)
    with pytest.raises(Conflict, match="rollout r1 of m runs in group all"):
        fleet.save_rollout(view("r2"), b"", now=NOW)
    fleet.label("a", {"x": "y"}, "ann", NOW)
    assert fleet.settle(NOW) == []
    fleet.save_rollout(view(status="rolled_back"), b"", now=NOW)
    fleet.set_baseline("all", "m", baseline("1.0.0"), "ann", NOW)
    assert generations(fleet.settle(NOW)) == [("a", "1.0.0", 2)]


def test_who_moved_to_another_group_after_an_abort_gets_what_that_has(fleet):
    came(fleet, "a")
    orders = [("a", order_of("2.0.0", rollout="r1"))]
    fleet.save_rollout(view(), b"", queued("a"), now=NOW, orders=orders)
    fleet.save_rollout(view(status="aborted"), b"", now=NOW)
    fleet.put_group(Group(name="lyon", selector="site=lyon"), "ann", NOW)
    fleet.set_baseline("lyon", "m", baseline("1.1.0"), "ann", NOW)
    fleet.label("a", {"site": "lyon"}, "ann", NOW)
    assert generations(fleet.settle(NOW)) == [("a", "1.1.0", 2)]


# Rollouts


def test_a_rollout_is_what_was_saved_last(fleet):
    came(fleet, "a", "b", "c")
    note = Note("rollout_started", "by ann", None)
    fleet.save_rollout(view(), b"one", queued("a", "b", "c"), [note], NOW)
    fleet.save_rollout(
        view(why="x"), b"two", queued("b", phase=Phase.DONE), [Note("done", "fine", "b")], NOW,
        [("b", order_of("2.0.0", rollout="r1"))],
    )  # fmt: skip
    assert fleet.rollout("r1").why == "x"
    assert fleet.rollout_record("r1") == b"two"
    assert list(fleet.rollout_device_records("r1").items()) == [
        (one, f"record of {one}".encode()) for one in "abc"
    ]
    page, after = fleet.rollout_devices("r1", limit=2)
    assert ([one.device for one in page], after) == (["a", "b"], "b")
    page, after = fleet.rollout_devices("r1", Phase.QUEUED, "a")
    assert ([one.device for one in page], after) == (["c"], None)
    assert kinds(fleet, rollout="r1") == ["rollout_started", "done"]
    assert generations(fleet.unpublished()) == [("b", "2.0.0", 1)]
    assert [one.id for one in fleet.rollouts("running")] == ["r1"]
    assert fleet.rollouts("paused") == []


def test_a_save_that_is_refused_leaves_nothing(fleet):
    came(fleet, "a")
    fleet.save_rollout(view(), b"one", queued("a"), now=NOW)
    head = fleet.head()
    saves = [
        RolloutSave(view("r2", "draft"), b"x", orders=[("a", order_of("2.0.0"))]),
        RolloutSave(view(why="late"), b"two", notes=[Note("x", "y")], revision=7),
    ]
    with pytest.raises(Conflict, match="rollout r1 is of revision 1, not 7"):
        fleet.save_rollouts(saves, NOW)
    assert (fleet.rollout("r1").why, fleet.rollout_record("r1")) == ("", b"one")
    assert (fleet.unpublished(), fleet.head(), len(fleet.rollouts())) == ([], head, 1)


def test_one_active_rollout_of_a_model_in_a_group(fleet):
    fleet.put_group(Group(name="lyon", selector="site=lyon"), "ann", NOW)
    fleet.save_rollout(view("r1", "paused"), b"", now=NOW)
    fleet.save_rollout(view("r2", "draft"), b"", now=NOW)
    with pytest.raises(Conflict, match="rollout r1 of m runs in group all"):
        fleet.save_rollout(view("r2"), b"", now=NOW)
    fleet.save_rollout(view("r3", group="lyon"), b"", now=NOW)
    fleet.save_rollout(view("p1", profile="cam"), b"", now=NOW)
    with pytest.raises(Conflict, match="rollout p1 of a profile runs in group all"):
        fleet.save_rollout(view("p2", profile="other"), b"", now=NOW)  # a device has one profile
    fleet.save_rollout(view("r1", "rolled_back"), b"", now=NOW)
    fleet.save_rollout(view("r2"), b"", now=NOW)


def test_a_device_is_in_one_active_rollout_of_a_section(fleet):
    came(fleet, "a", "b")
    fleet.put_group(Group(name="lyon", selector="site=lyon"), "ann", NOW)
    fleet.save_rollout(view("r1"), b"", queued("a"), now=NOW)
    for devices_first in (False, True):
        rollout = f"late-{devices_first}".lower()
        if devices_first:
            fleet.save_rollout(view(rollout, "draft", "lyon"), b"", queued("a", "b"), now=NOW)
        with pytest.raises(Conflict, match="device a is in rollout r1 already"):
            given = () if devices_first else queued("a", "b")
            fleet.save_rollout(view(rollout, group="lyon"), b"", given, now=NOW)
    fleet.save_rollout(view("p1", group="lyon", profile="cam"), b"", queued("a", "b"), now=NOW)


def test_the_database_says_no_even_where_nobody_looked(fleet):
    """Two guards that another program's bug does not get around."""
    came(fleet, "a")
    fleet.save_rollout(view("r1"), b"", queued("a"), now=NOW)
    fleet.save_rollout(view("r2", "draft"), b"", queued("a"), now=NOW)
    for table in ("fleet_rollouts", "fleet_rollout_devices"):
        statement = sa.text(f"UPDATE {table} SET active = :yes")
        with pytest.raises(Conflict, match=r"(?i)unique"):
            fleet._database.write(lambda c, s=statement: c.execute(s, {"yes": True}))


def test_of_operators_that_start_rollouts_at_once_one_wins(fleet):
    came(fleet, "a")
    for n in range(6):
        fleet.save_rollout(view(f"r{n}", "draft"), b"", queued("a"), now=NOW)
    outcomes = _at_once(lambda n: fleet.save_rollout(view(f"r{n}"), b"", now=NOW, revision=1), 6)
    assert sorted(outcomes) == ["Conflict"] * 5 + ["done"]
    assert len(fleet.rollouts("running")) == 1


def test_of_processes_that_start_rollouts_at_once_one_wins(at):
    with opened(at) as fleet:
        came(fleet, "a")
        for n in range(2):
            fleet.save_rollout(view(f"r{n}", "draft"), b"", queued("a"), now=NOW)
        spawn = multiprocessing.get_context("spawn")
        start, outcomes = spawn.Barrier(2), spawn.Queue()
        processes = [
            spawn.Process(target=_start_one, args=(at[0], n, start, outcomes)) for n in range(2)
        ]
        for process in processes:
            process.start()
        found = sorted(outcomes.get(timeout=60) for _ in processes)
        for process in processes:
            process.join(60)
        assert found == ["Conflict", "done"]
        assert len(fleet.rollouts("running")) == 1


def _start_one(url: str, n: int, start: Any, outcomes: Any) -> None:
    database = FleetDatabase(url)
    fleet = Fleet(database, DeviceSettings())
    start.wait(60)
    outcomes.put(_outcome(lambda: fleet.save_rollout(view(f"r{n}"), b"", now=NOW)))
    database.close()


def test_ended_rollouts_make_room_for_new_ones(at):
    with opened(at, rollouts_max=10) as fleet:
        came(fleet, "a")
        for n in range(10):
            status = "succeeded" if n < 2 else "draft"
            fleet.save_rollout(view(f"r{n}", status), b"", queued("a"), now=NOW)
        fleet.save_rollout(view("r10", "draft"), b"", now=NOW)
        fleet.save_rollout(view("r11", "draft"), b"", now=NOW)
        with pytest.raises(Overloaded, match="10 rollouts that have not ended"):
            fleet.save_rollout(view("r12", "draft"), b"", now=NOW)
        fleet.save_rollout(view("r11", "draft", why="known ones go on"), b"", now=NOW)
        with pytest.raises(Unknown):
            fleet.rollout_devices("r0")


def test_an_aborted_rollout_makes_room_once_it_keeps_nobody_any_more(at):
    with opened(at, rollouts_max=10) as fleet:
        fleet.put_group(Group(name="lyon", selector="site=lyon"), "ann", NOW)
        for n in range(10):
            fleet.save_rollout(view(f"r{n}", group="lyon"), b"", now=NOW)
            fleet.save_rollout(view(f"r{n}", "aborted", "lyon"), b"", now=NOW)
        with pytest.raises(Overloaded):
            fleet.save_rollout(view("r10", "draft"), b"", now=NOW)
        fleet.remove_group("lyon", "ann", NOW)
        fleet.save_rollout(view("r10", "draft"), b"", now=NOW)


def test_a_rollout_of_a_group_that_is_not_here(fleet):
    with pytest.raises(Unknown, match="no group 'nowhere'"):
        fleet.save_rollout(view(group="nowhere", status="draft"), b"", now=NOW)
    with pytest.raises(Unknown, match="no rollout r1"):
        fleet.save_rollout(view(), b"", now=NOW, revision=3)


# The log


def test_the_log_keeps_the_newest_lines(at):
    with opened(at, events_max=100) as fleet:
        fleet.record([(f"d{n:03}", Seen()) for n in range(250)], NOW)
        assert fleet.head() == 100  # of one transaction, the last hundred
        fleet.label("d000", {"a": "b"}, "ann", NOW)
        found = fleet.events(0, 1000)
        assert [event.seq for event in found] == list(range(2, 102))
        assert (found[-1].kind, found[-1].actor, found[-1].device) == ("labels", "ann", "d000")
        assert [event.seq for event in fleet.events(99, 2)] == [100, 101]


def test_every_change_has_its_line(fleet):
    came(fleet, "a")
    token, _ = fleet.make_token("ann", NOW, 3600)
    for change in (
        lambda: fleet.label("a", {"site": "lyon"}, "ann", NOW),
        lambda: fleet.quarantine("a", "x", None, "ann", NOW),
        lambda: fleet.end_quarantine("a", "x", "ann", NOW),
        lambda: fleet.put_group(Group(name="g", selector="x"), "ann", NOW),
        lambda: fleet.set_baseline("all", "m", baseline("1.1.0"), "ann", NOW),
        lambda: fleet.settle(NOW),
        lambda: fleet.push_profile("cam", 1, ProfileSettings(), "ann", NOW),
        lambda: fleet.set_group_profile("g", ProfileRef(name="cam", version=1), "ann", NOW),
        lambda: fleet.remove_group("g", "ann", NOW),
        lambda: fleet.revoke_token(token.id, "ann", NOW),
        lambda: fleet.use_token(*_token(fleet), "b", NOW),
        lambda: fleet.add_certificate("a", _certificate("ab"), NOW),
        lambda: fleet.revoke("a", "x", "ann", NOW),
        lambda: fleet.remove("a", "ann", NOW),
    ):
        before = fleet.head()
        change()
        assert fleet.head() > before


@pytest.mark.parametrize(("after", "limit"), [(-1, 1), (2**63, 1), (0, 0), (0, -5)])
def test_bounds_of_what_is_asked_of_the_log(fleet, after, limit):
    with pytest.raises(Malformed):
        fleet.events(after, limit)


def _at_once(act: Callable[[int], Any], count: int) -> list[str]:
    start = threading.Barrier(count)

    def one(n: int) -> str:
        start.wait(30)
        return _outcome(lambda: act(n))

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(one, range(count)))


def _outcome(act: Callable[[], Any]) -> str:
    try:
        act()
    except HybridgeError as error:
        return type(error).__name__
    return "done"
