"""Alarms in the fleet's store, on both databases."""

import pytest

from cloud.fleet.device_settings import DeviceSettings
from cloud.fleet.devices import Fleet
from cloud.fleet.drift.keeping import DriftKeeping
from cloud.fleet.store.database import FleetDatabase
from cloud.monitoring.drift.documents import Alarm, Cause, Kind, Scope
from cloud.monitoring.drift.opened import Closed, Opened, alarm_id
from cloud.rollouts.documents import ModelSubject, RolloutSpec, RolloutStatus, RolloutView
from shared.errors import Malformed, Unknown

SETTINGS = DeviceSettings(needs_enrolment=False)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'fleet.db'}"
    else:
        url = request.getfixturevalue("postgres").new_database()
    database = FleetDatabase(url)
    database.open()
    yield database
    database.close()


def alarm(name="lyon", at=100.0, cause=Cause.SCENE):
    scope = Scope(kind="group", name=name, model="m", version="1.0.0")
    return Alarm(
        id=alarm_id(Kind.INPUT, scope, at), kind=Kind.INPUT, scope=scope, cause=cause,
        words="Inputs drift.", runbook="Look.", command="hybridge loop begin m -m x", opened_at=at,
    )  # fmt: skip


def over(one, at=200.0):
    return Closed(one.model_copy(update={"closed_at": at}), "it is as before")


def kinds(database):
    return [one.kind for one in Fleet(database, SETTINGS).events(0, 100)]


def test_what_opens_and_closes_is_stored_with_its_line_in_the_log(database):
    keeping = DriftKeeping(database, SETTINGS)
    keeping.apply([Opened(alarm())], "{}", 100.0, 10)
    assert keeping.kept().alarms == (alarm(),)
    keeping.apply([over(alarm())], '{"a": 1}', 200.0, 10)
    assert keeping.kept().alarms == ()
    assert keeping.kept().record == '{"a": 1}'
    assert keeping.alarm(alarm().id).closed_at == 200.0
    assert kinds(database) == ["drift_opened", "drift_closed"]


def test_the_same_again_changes_nothing(database):
    keeping = DriftKeeping(database, SETTINGS)
    for _ in range(3):
        keeping.apply([Opened(alarm())], "{}", 100.0, 10)
    for _ in range(3):
        keeping.apply([over(alarm())], "{}", 200.0, 10)
    keeping.apply([Opened(alarm())], "{}", 100.0, 10)
    assert kinds(database) == ["drift_opened", "drift_closed"]
    assert keeping.kept().alarms == ()


def test_who_has_seen_it_first_stays_and_outlives_its_end(database):
    keeping = DriftKeeping(database, SETTINGS)
    keeping.apply([Opened(alarm())], "{}", 100.0, 10)
    assert keeping.seen(alarm().id, "on my way", "ann", 150.0).seen_by == "ann"
    assert keeping.seen(alarm().id, "me too", "bob", 160.0).seen_by == "ann"
    keeping.apply([over(alarm())], "{}", 200.0, 10)
    assert keeping.alarm(alarm().id).seen_by == "ann"
    assert kinds(database).count("drift_seen") == 1
    with pytest.raises(Unknown, match="no alarm 'nothing'"):
        keeping.seen("nothing", "", "ann", 1.0)
    with pytest.raises(Malformed, match="control character"):
        keeping.seen(alarm().id, "a\x1bb", "ann", 1.0)


def test_pages_have_each_alarm_once_the_newest_first(database):
    keeping = DriftKeeping(database, SETTINGS)
    every = [alarm(f"g{at}", 100.0 + at // 2) for at in range(7)]
    keeping.apply([Opened(one) for one in every], "{}", 100.0, 10)
    keeping.apply([over(every[3])], "{}", 200.0, 10)
    seen, after = [], ""
    while True:
        found, following = keeping.alarms(is_on=None, after=after, limit=2)
        seen += found
        if following is None:
            break
        after = following
    assert len(seen) == 7
    assert [one.opened_at for one in seen] == sorted((one.opened_at for one in seen), reverse=True)
    assert len({one.id for one in seen}) == 7
    assert len(keeping.alarms(is_on=True, after="", limit=10)[0]) == 6
    assert [one.id for one in keeping.alarms(is_on=False, after="", limit=10)[0]] == [every[3].id]


def test_the_oldest_that_are_over_go_first(database):
    keeping = DriftKeeping(database, SETTINGS)
    every = [alarm(f"g{at}", 100.0 + at) for at in range(4)]
    keeping.apply([Opened(one) for one in every], "{}", 100.0, 10)
    keeping.apply([over(every[1]), over(every[2])], "{}", 200.0, 3)
    assert [one.id for one in keeping.alarms(is_on=None, after="", limit=10)[0]] == [
        every[3].id, every[2].id, every[0].id,
    ]  # fmt: skip


def test_an_alarm_about_a_version_names_the_rollout_that_brought_it(database):
    fleet, keeping = Fleet(database, SETTINGS), DriftKeeping(database, SETTINGS)
    fleet.record([], 1.0)
    spec = RolloutSpec(
        subject=ModelSubject(model="m", version="1.0.0", manifest_sha256="b" * 64), group="all",
        seed="s",
    )  # fmt: skip
    view = RolloutView(
        id="roll-1", spec=spec, status=RolloutStatus.DRAFT, stages=(), created_at=1.0,
        created_by="ann", revision=0,
    )  # fmt: skip
    fleet.save_rollout(view, b"")
    keeping.apply([Opened(alarm("all", cause=Cause.MODEL))], "{}", 100.0, 10)
    (found,) = keeping.kept().alarms
    assert found.command.startswith("hybridge rollout undo roll-1 ")


def test_groups_of_devices_that_are_in_the_fleet(database):
    from cloud.fleet.heard import Seen  # noqa: PLC0415

    fleet, keeping = Fleet(database, SETTINGS), DriftKeeping(database, SETTINGS)
    fleet.record([("a", Seen()), ("b", Seen())], 1.0)
    fleet.revoke("b", "stolen", "ann", 2.0)
    assert keeping.groups_of(["a", "b", "c"]) == {"a": "all"}
