"""The part of the process that watches: telemetry in, alarms in the store, whatever ends it."""

import asyncio
import contextlib
from random import Random

import pytest
from prometheus_client import CollectorRegistry

from cloud.fleet.device_settings import DeviceSettings
from cloud.fleet.devices import Fleet
from cloud.fleet.drift.drifting import Drifting
from cloud.fleet.drift.keeping import DriftKeeping
from cloud.fleet.drift.references import References
from cloud.fleet.heard import Seen
from cloud.fleet.metrics import FleetMetrics
from cloud.fleet.settings import RegistryAsk
from cloud.fleet.store.database import FleetDatabase
from cloud.monitoring.drift.board import scope_of
from cloud.monitoring.drift.documents import Cause
from cloud.monitoring.drift.opened import Opened, by_silence
from cloud.monitoring.drift.settings import DriftSettings
from shared.errors import Malformed, Unavailable, Unknown
from tests.cloud.monitoring.drift.field import INTERVAL_S, Device, reference

DEVICES = [f"lyon-{at}" for at in range(4)]


class Known(References):
    """The registry's answers without a registry."""

    def __init__(self, away=0):
        super().__init__(None, Random(1))
        self.away, self.asked = away, 0

    async def of(self, version, now):
        self.asked += 1
        if self.asked <= self.away:
            raise Unavailable("the registry is away")
        return reference(version[1])


class Late(References):
    """A registry that does not have the version when it is first asked."""

    def __init__(self):
        super().__init__(RegistryAsk(urls=("http://127.0.0.1:1",)), Random(1))
        self.asked = 0

    async def _ask(self, settings, version):
        self.asked += 1
        if self.asked == 1:
            raise Unknown("no such version")
        return reference(version[1])


class Region:
    def __init__(self, folder, settings=None):
        self.url = f"sqlite:///{folder / 'fleet.db'}"
        self.devices = [Device(name) for name in DEVICES]
        self.now = 1000.0
        self.settings = settings or DriftSettings()
        self.open()

    def open(self, references=None):
        """As a process that starts."""
        self.database = FleetDatabase(self.url)
        self.database.open()
        settings = DeviceSettings(needs_enrolment=False)
        self.fleet = Fleet(self.database, settings)
        self.fleet.record([(one.name, Seen()) for one in self.devices], self.now)
        self.wrote = 0
        self.counts = CollectorRegistry()
        self.references = references or Known()
        self.drifting = Drifting(
            DriftKeeping(self.database, settings), self.references, self.settings,
            FleetMetrics(self.counts), self._wrote, lambda: self.now,
        )  # fmt: skip

    def _wrote(self):
        self.wrote += 1

    def killed(self):
        self.database.close()
        self.open()

    async def turn(self, shift=0.0, missing=0):
        self.now += INTERVAL_S
        for one in self.devices:
            one.sees(60, shift, missing=missing)
        self.drifting.feed([(one.name, one.report()) for one in self.devices])
        await self.drifting._look()
        await self.drifting._ask()

    async def turns(self, count, shift=0.0):
        for _ in range(count):
            await self.turn(shift)

    def events(self):
        return [one.kind for one in self.fleet.events(0, 1000) if one.kind.startswith("drift")]


@pytest.fixture
def region(tmp_path):
    region = Region(tmp_path)
    yield region
    region.database.close()


def test_drift_is_stored_said_and_closed(region):
    async def go():
        await region.turns(8)
        await region.turns(6, 3.0)
        assert region.events() == ["drift_opened"]
        (alarm,), _ = await region.drifting.alarms(is_on=True, after="", limit=10)
        assert (alarm.scope.kind, alarm.scope.name) == ("group", "all")
        state = await region.drifting.state(None, None, None, "", 100)
        assert state.alarms == (alarm,)
        assert {one.scope.name for one in state.scopes} == {"fleet", "all", *DEVICES}
        await region.turns(15)
        assert region.events() == ["drift_opened", "drift_closed"]

    asyncio.run(go())
    assert region.wrote == 2
    assert region.counts.get_sample_value("hybridge_fleet_drift_alarms") == 0
    assert region.counts.get_sample_value("hybridge_fleet_drift_devices") == 4


def test_a_version_that_is_registered_late_is_watched_by_its_features_within_the_hour(region):
    region.database.close()
    region.open(Late())

    async def go():
        await region.turns(14, 3.0)
        assert (region.events(), region.references.asked) == ([], 1)
        region.now += 3600
        await region.turns(8)
        await region.turns(6, 3.0)
        assert (region.events(), region.references.asked) == (["drift_opened"], 2)

    asyncio.run(go())


def test_killed_with_an_alarm_on_it_does_not_open_twice_and_still_closes(region):
    async def go():
        await region.turns(8)
        await region.turns(6, 3.0)
        region.killed()
        await region.turns(12, 3.0)
        assert region.events() == ["drift_opened"]
        await region.turns(15)
        assert region.events() == ["drift_opened", "drift_closed"]

    asyncio.run(go())


def test_what_groups_were_at_peace_with_outlives_starts_in_which_nobody_was_heard(region):
    async def go():
        await region.turns(8)
        region.drifting.drain()
        await region.drifting.run()
        for _ in range(2):
            region.killed()
            await region.drifting._look()
            region.now += 900
            await region.drifting._look()
        for one in region.devices:
            one.swaps("2.0.0")
        region.killed()
        await region.turns(8, 3.0)
        (alarm,), _ = await region.drifting.alarms(is_on=True, after="", limit=10)
        assert (alarm.scope.kind, alarm.cause) == ("group", Cause.MODEL)

    asyncio.run(go())


def test_a_start_does_not_write_over_what_the_store_has(region):
    region.drifting._keeping.apply([], "nonsense", 1.0, 10)
    asyncio.run(region.turns(2))
    assert region.drifting._keeping.kept().record == "nonsense"


def test_alarms_that_are_on_beyond_the_room_for_them_close_too(tmp_path):
    region = Region(tmp_path, DriftSettings(alarms_max=1))
    opened = [
        Opened(by_silence(scope_of("group", name, ("m", "1.0.0")), (), Cause.UNKNOWN, region.now))
        for name in ("lyon", "nice", "paris")
    ]
    region.drifting._keeping.apply(opened, '{"alarms":[],"peace":[]}', region.now, 10)
    asyncio.run(region.drifting._look())
    region.now += region.settings.forget_s + 1
    asyncio.run(region.drifting._look())
    assert region.events() == ["drift_opened"] * 3 + ["drift_closed"] * 3
    region.database.close()


def test_killed_between_decision_and_store_it_is_decided_again(region):
    async def go():
        await region.turns(8)
        apply = region.drifting._keeping.apply

        def dies(*_):
            raise Unavailable("the disk is gone")

        region.drifting._keeping.apply = dies
        await region.turns(6, 3.0)
        region.drifting._keeping.apply = apply
        assert region.events() == []
        region.killed()
        await region.turns(8, 3.0)
        assert region.events() == ["drift_opened"]

    asyncio.run(go())


def test_what_could_not_be_stored_is_stored_when_the_store_is_back(region):
    async def go():
        await region.turns(8)
        keeping = region.drifting._keeping
        apply, keeping.apply = keeping.apply, lambda *_: _away()
        await region.turns(6, 3.0)
        assert region.events() == []
        keeping.apply = apply
        await region.turn(3.0)
        assert region.events() == ["drift_opened"]

    def _away():
        raise Unavailable("the disk is full")

    asyncio.run(go())


def test_a_device_that_has_left_the_fleet_is_watched_no_more(region):
    async def go():
        await region.turns(4)
        gone = region.devices.pop()
        region.fleet.remove(gone.name, "ann", region.now)
        region.now += 400  # the comparison is made each five minutes
        await region.turn()
        state = await region.drifting.state("device", None, None, "", 100)
        assert {one.scope.name for one in state.scopes} == set(DEVICES[:-1])

    asyncio.run(go())


def test_a_clock_that_is_set_back_puts_off_neither_comparing_nor_keeping(region):
    async def go():
        region.now = 1e6
        await region.turns(4)
        region.now -= 86_400
        await region.turn()
        record = region.drifting._keeping.kept().record
        gone = region.devices.pop()
        region.fleet.remove(gone.name, "ann", region.now)
        region.now += 600
        await region.turns(8)
        state = await region.drifting.state("device", None, None, "", 100)
        assert {one.scope.name for one in state.scopes} == set(DEVICES[:-1])
        assert region.drifting._keeping.kept().record != record

    asyncio.run(go())


def test_silent_devices_that_leave_the_fleet_after_a_restart_end_their_group_s_alarm(region):
    async def go():
        await region.turns(4)
        gone, region.devices = region.devices[:2], region.devices[2:]
        await region.turns(15)
        region.killed()
        await region.turns(10)
        assert region.events() == ["drift_opened"]
        for one in gone:
            region.fleet.remove(one.name, "ann", region.now)
        region.now += 400  # the comparison is made each five minutes
        await region.turns(5)
        assert region.events() == ["drift_opened", "drift_closed"]

    asyncio.run(go())


def test_of_strangers_nothing_is_counted(region):
    async def go():
        stranger = Device("nobody")
        stranger.sees(500)
        region.drifting.feed([("nobody", stranger.report())])
        await region.turns(3)
        state = await region.drifting.state("device", "nobody", None, "", 100)
        assert state.scopes == ()

    asyncio.run(go())


def test_reports_that_have_no_place_to_wait_are_counted(tmp_path):
    region = Region(tmp_path, DriftSettings(pending_max=2))
    asyncio.run(region.turns(2))
    dropped = region.counts.get_sample_value(
        "hybridge_fleet_drift_doubts_total", {"reason": "no_turn"}
    )
    assert dropped == 4
    region.database.close()


def samples(region):
    """In the windows of all groups."""
    groups = region.drifting._watch.tracks.groups.values()
    return sum(one.window.parts(one.devices).samples for one in groups)


def lost(region):
    reason = {"reason": "no_turn"}
    return region.counts.get_sample_value("hybridge_fleet_drift_doubts_total", reason) or 0


@pytest.mark.parametrize("begins_anew", ["restarts", "swaps"])
def test_a_life_that_ends_while_the_store_is_away_is_counted(tmp_path, begins_anew):
    region = Region(tmp_path, DriftSettings(window_samples=2000))

    async def go():
        await region.turns(2)
        keeping = region.drifting._keeping
        groups_of, keeping.groups_of = keeping.groups_of, lambda _: _away()
        await region.turns(2)
        getattr(region.devices[0], begins_anew)(*("1.1.0",) * (begins_anew == "swaps"))
        await region.turn()
        keeping.groups_of = groups_of
        await region.turns(2)  # a version's reference is asked for when it is first named
        left = (
            4 * 60 if begins_anew == "swaps" else 0
        )  # what it said goes with it from its old group
        assert samples(region) == 7 * 4 * 60 - left
        assert lost(region) == 0

    def _away():
        raise Unavailable("the disk is full")

    asyncio.run(go())
    region.database.close()


def test_lives_that_end_within_one_look_are_counted(tmp_path):
    region = Region(tmp_path, DriftSettings(window_samples=2000))

    async def go():
        await region.turns(2)
        for one in region.devices:
            for seen in (60, 20):
                one.sees(seen)
                region.drifting.feed([(one.name, one.report())])
            one.restarts()
        await region.turn()
        assert samples(region) == 4 * (2 * 60 + 80 + 60)
        assert lost(region) == 0

    asyncio.run(go())
    region.database.close()


def test_what_a_device_can_have_done_is_judged_by_when_its_report_came(tmp_path):
    region = Region(tmp_path, DriftSettings(window_samples=5000))

    async def go():
        await region.turns(2)
        keeping = region.drifting._keeping
        groups_of, keeping.groups_of = keeping.groups_of, lambda _: _away()
        (device, *_) = region.devices
        device.restarts()
        for _ in range(100):
            await region.turn()
        device.restarts()
        for _ in range(100):
            await region.turn()
        keeping.groups_of = groups_of
        await region.turn()
        assert region.drifting._watch.tracks.doubts["too_many"] == 0

    def _away():
        raise Unavailable("the disk is full")

    asyncio.run(go())
    region.database.close()


def test_a_registry_that_is_away_is_asked_again(region):
    async def go():
        region.drifting._references = references = Known(away=2)
        await region.turns(12)
        assert references.asked >= 3
        state = await region.drifting.state("group", None, None, "", 100)
        assert state.scopes[0].features

    asyncio.run(go())


def test_a_page_s_end_that_no_page_gave_is_refused(region):
    async def go():
        await region.turns(2)
        with pytest.raises(Malformed, match="after is 'x'"):
            await region.drifting.state(None, None, None, "x", 10)

    asyncio.run(go())


def test_drained_it_looks_once_more_and_ends(region):
    async def go():
        running = asyncio.create_task(region.drifting.run())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.shield(running)
        for one in region.devices:
            one.sees(60)
        region.drifting.feed([(one.name, one.report()) for one in region.devices])
        region.drifting.drain()
        async with asyncio.timeout(20):
            await running
        assert len(region.drifting._pending) == 0

    asyncio.run(go())


def test_alarms_in_the_table_are_on_whatever_the_record_says(region):
    async def go():
        await region.turns(8)
        await region.turns(6, 3.0)
        region.drifting._keeping.apply([], "nonsense", 1.0, 10)
        region.killed()
        await region.turns(12, 3.0)
        assert region.events() == ["drift_opened"]

    asyncio.run(go())


def test_a_record_that_nobody_can_read_does_not_stop_it(region):
    region.drifting._keeping.apply([], "nonsense", 1.0, 10)
    asyncio.run(region.turns(2))
    assert region.drifting._watch is not None
