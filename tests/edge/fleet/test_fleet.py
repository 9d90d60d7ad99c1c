"""An agent in its fleet, on a real broker: desired state in, reports, telemetry and answers out."""

import asyncio
import hashlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cloud.broker.launch import BrokerAddress
from edge.fleet import kept_file
from edge.fleet.kept import Kept
from edge.fleet.settings import FleetSettings
from edge.updates.folders import factory_release
from edge.uplink.courier import Letter
from shared import topics
from shared.fleet.asking import Ask, Told
from shared.fleet.desired import DesiredModel
from shared.fleet.reported import DevicePhase, ReportedInventory, ReportedModel, ReportedProfile
from shared.fleet.telemetry import Telemetry
from tests.brokers import running_broker
from tests.edge.fleet.station import member, profile, region, settings
from tests.edge.stand_in_cloud import a_sample, cloud, until
from tests.tiny_bundle import sure_image, unsure_image, write_tiny_bundle


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerAddress]:
    with running_broker("embedded", tmp_path_factory.mktemp("broker")) as address:
        yield address


@pytest.fixture
def state(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Named after the test, since it names the device too."""
    write_tiny_bundle(tmp_path / "bundle")
    name: str = request.node.name
    return tmp_path / f"{name[5:45]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}".replace(
        "[", "_"
    )


def desired(generation: int, **changes: Any) -> DesiredModel:
    tree = {
        "generation": generation,
        "model": "tiny-edge",
        "version": "2.0.0",
        "manifest_sha256": "0" * 64,
    }
    return DesiredModel.model_validate(tree | changes)


def test_all_three_sections_are_reported_once_it_is_up(state: Path, broker: BrokerAddress) -> None:
    async def scenario() -> None:
        async with region(broker, state.name) as north, member(settings(state, broker)) as it:
            model = await north.hears_of(ReportedModel, lambda _: True)
            release = factory_release(it.agent.slot.bundle)
            assert (model.phase, model.generation, model.rollout) == (
                DevicePhase.COMMITTED,
                0,
                None,
            )
            assert (model.model, model.version) == ("tiny-edge", "1.0.0")
            assert (model.manifest_sha256, model.variant) == (
                release.manifest_sha256,
                "onnxruntime/fp32",
            )
            own = await north.hears_of(ReportedProfile, lambda _: True)
            assert (own.name, own.generation, own.applied) == (None, 0, True)
            hardware = await north.hears_of(ReportedInventory, lambda _: True)
            assert hardware.certificate_serial == "abc1"
            assert hardware.cores >= 1
            assert "onnxruntime" in hardware.engines

    asyncio.run(scenario())


def test_a_profile_is_applied_while_it_runs_and_after_a_restart_without_the_broker(
    state: Path, broker: BrokerAddress
) -> None:
    async def scenario() -> None:
        its = settings(state, broker)
        async with region(broker, state.name) as north, cloud(broker), member(its) as it:
            assert (await it.agent.answer(a_sample(sure_image(1)))).route == "accepted"
            await north.desires("profile", profile(4, confidence_min=2.0).to_bytes())
            said = await north.hears_of(ReportedProfile, lambda r: r.generation == 4)
            assert (said.name, said.version, said.applied, said.why) == ("camera", 1, True, "")
            assert (await it.agent.answer(a_sample(sure_image(1)))).route == "escalated"
        async with member(settings(state, None)) as it:
            assert (await it.agent.answer(a_sample(sure_image(1)))).route == "escalated"

    asyncio.run(scenario())


def test_a_profile_with_an_unknown_threshold_is_refused_whole_and_the_one_before_stays(
    state: Path, broker: BrokerAddress
) -> None:
    async def scenario() -> None:
        async with region(broker, state.name) as north, member(settings(state, broker)) as it:
            await north.desires("profile", profile(1, audit_share=1.0).to_bytes())
            await north.hears_of(ReportedProfile, lambda r: r.generation == 1)
            bad = profile(2, version=2, threshold="nope", audit_share=0.0)
            await north.desires("profile", bad.to_bytes())
            said = await north.hears_of(ReportedProfile, lambda r: r.generation == 2)
            assert (said.version, said.applied) == (1, False)
            assert (
                "profile camera 2: routing.threshold 'nope' is not in the bundle's table"
                in said.why
            )
            assert (await it.agent.answer(a_sample(sure_image(1)))).route == "audit"
            assert it.counters.snapshot()["profile_refused"] == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xff{", "Invalid JSON"),
        (b"{" + b" " * 9000, "9001 bytes; at most 8192 are read"),
        (
            profile(1, audit_share=0.5).model_copy(update={"sha256": "0" * 64}).to_bytes(),
            "has sha256",
        ),
    ],
)
def test_a_document_that_is_none_is_counted_and_said_and_changes_nothing(
    state: Path, broker: BrokerAddress, content: bytes, why: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    async def scenario() -> None:
        async with region(broker, state.name) as north, member(settings(state, broker)) as it:
            await north.hears_of(ReportedProfile, lambda _: True)  # it is there
            await north.desires("profile", content)
            await north.desires("profile", profile(9, audit_share=1.0).to_bytes())
            await north.hears_of(ReportedProfile, lambda r: r.generation == 9 and r.applied)
            assert it.counters.snapshot()["desired_profile_refused"] == 1

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    (line,) = [r for r in caplog.records if r.message == "desired_profile_refused"]
    assert why in vars(line)["why"]


def test_a_lower_generation_and_a_copy_change_nothing(state: Path, broker: BrokerAddress) -> None:
    async def scenario() -> None:
        async with region(broker, state.name) as north, member(settings(state, broker)) as it:
            await north.hears_of(ReportedProfile, lambda _: True)
            await north.desires("profile", profile(5, audit_share=1.0).to_bytes())
            await north.desires("profile", profile(4, version=2, audit_share=0.0).to_bytes())
            await north.desires("profile", profile(5, version=3, audit_share=0.0).to_bytes())
            await north.desires("model", desired(1).to_bytes())  # in order: they were read before
            await north.hears_of(ReportedModel, lambda r: r.generation == 1)
            reports = [
                ReportedProfile.from_bytes(p, 9999)
                for p in north.said(topics.reported(north.device, "profile"))
            ]
            assert {r.generation for r in reports} <= {0, 5}
            assert (reports[-1].generation, reports[-1].version) == (5, 1)
            assert (await it.agent.answer(a_sample(sure_image(1)))).route == "audit"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "this device takes no updates"),
        ({"model": "other"}, "this device runs the model tiny-edge; desired is other"),
    ],
)
def test_what_a_device_cannot_follow_is_reported_as_failed(
    state: Path, broker: BrokerAddress, changes: dict[str, Any], why: str
) -> None:
    async def scenario() -> None:
        async with region(broker, state.name) as north, member(settings(state, broker)):
            await north.desires("model", desired(3, rollout="r-1", attempt=2, **changes).to_bytes())
            said = await north.hears_of(ReportedModel, lambda r: r.generation == 3)
            assert (said.phase, said.rollout, said.attempt) == (DevicePhase.FAILED, "r-1", 2)
            assert why in said.why
            assert said.version == "1.0.0"

    asyncio.run(scenario())


def test_a_device_without_updates_that_runs_what_is_asked_for_is_committed(
    state: Path, broker: BrokerAddress
) -> None:
    async def scenario() -> None:
        async with region(broker, state.name) as north, member(settings(state, broker)) as it:
            home = factory_release(it.agent.slot.bundle)
            asked = desired(3, version=home.version, manifest_sha256=home.manifest_sha256)
            await north.desires("model", asked.to_bytes())
            said = await north.hears_of(ReportedModel, lambda r: r.generation == 3)
            assert said.phase == DevicePhase.COMMITTED

    asyncio.run(scenario())


def test_a_rollouts_audit_share_counts_while_it_is_asked_for(
    state: Path, broker: BrokerAddress
) -> None:
    async def scenario() -> None:
        async with region(broker, state.name) as north, member(settings(state, broker)) as it:
            await north.desires("model", desired(1, audit_share=1.0).to_bytes())
            await north.hears_of(ReportedModel, lambda r: r.generation == 1)
            assert (await it.agent.answer(a_sample(sure_image(1)))).route == "audit"
            await north.desires("model", desired(2).to_bytes())
            await north.hears_of(ReportedModel, lambda r: r.generation == 2)
            assert (await it.agent.answer(a_sample(sure_image(1)))).route == "accepted"

    asyncio.run(scenario())


def test_reports_go_on_with_higher_numbers_after_a_restart(
    state: Path, broker: BrokerAddress
) -> None:
    async def scenario() -> None:
        async with region(broker, state.name) as north:
            for _ in range(2):
                before = len(north.said(topics.reported(north.device, "model")))
                async with member(settings(state, broker)):
                    await north.hears(
                        lambda: len(north.said(topics.reported(north.device, "model"))) > before
                    )
            numbers = [
                ReportedModel.from_bytes(p, 9999).sequence
                for p in north.said(topics.reported(north.device, "model"))
            ]
            assert numbers == sorted(set(numbers))
            assert len(numbers) == 2

    asyncio.run(scenario())


def test_telemetry_tells_what_was_answered_and_what_the_cloud_said(
    state: Path, broker: BrokerAddress
) -> None:
    async def scenario() -> None:
        its = settings(state, broker)
        its = its.model_copy(update={"fleet": FleetSettings.model_construct(telemetry_s=0.05)})
        async with region(broker, state.name) as north, cloud(broker), member(its) as it:
            final = [await it.agent.answer(a_sample(sure_image(1))) for _ in range(3)]
            asked = await it.agent.answer(a_sample(unsure_image()))
            last = await it.agent.final(asked.id, 5.0)
            said = await north.hears_of(Telemetry, lambda t: t.tally.answered == 1)
            tally = said.tally
            assert (tally.samples, tally.escalated, tally.audited, tally.failed) == (4, 1, 0, 0)
            assert tally.disagreed == (last.label != asked.edge_label)
            assert sum(tally.latency) == 4
            assert tally.confidence[1][9] == len(final)
            assert said.sketches is None, "the bundle's reference has no feature of these"
            assert said.health.memory_bytes > 10**7
            assert said.health.disk_free_bytes > 0
            assert said.health.published_bytes > 0

    asyncio.run(scenario())


def test_the_newest_log_lines_are_told(state: Path, broker: BrokerAddress) -> None:
    async def scenario() -> None:
        async with region(broker, state.name) as north, member(settings(state, broker)) as it:
            await north.hears_of(ReportedInventory, lambda _: True)
            logging.getLogger("edge.test").warning("something_happened", extra={"number": 7})
            await north.asks(b"{}")
            await north.asks(Ask(id="0123456789abcdef", what="logs", lines=20).to_bytes())
            await north.hears(lambda: bool(north.said(topics.told(north.device))))
            told = Told.from_bytes(north.said(topics.told(north.device))[0], 2**20)
            assert told.id == "0123456789abcdef"
            events = [json.loads(line)["event"] for line in told.lines]
            assert "something_happened" in events
            assert events[-1] == "ask_refused"
            assert it.counters.snapshot()["ask_refused"] == 1

    asyncio.run(scenario())


def test_a_damaged_file_falls_back_to_the_devices_own_settings(
    state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept_file.save(state, Kept(applied=profile(1, confidence_min=2.0), profile_generation=1))
    content = (state / "fleet.json").read_text()
    (state / "fleet.json").write_text(content.replace("camera", "cam3ra"))

    async def scenario() -> None:
        async with member(settings(state, None)) as it:
            assert (await it.agent.answer(a_sample(sure_image(1)))).route == "accepted"

    asyncio.run(scenario())
    assert "fleet_state_unreadable" in [r.message for r in caplog.records]


def test_a_profile_that_does_not_fit_the_version_at_start_is_said_to_be_in_force_no_more(
    state: Path, broker: BrokerAddress
) -> None:
    gone = profile(6, threshold="gone")
    kept_file.save(state, Kept(profile=gone, profile_generation=6, applied=gone))

    async def scenario() -> None:
        async with region(broker, state.name) as north, member(settings(state, broker)) as it:
            said = await north.hears_of(ReportedProfile, lambda r: r.generation == 6)
            assert (said.applied, said.name) == (False, None)
            assert "not in force any more: profile camera 1: routing.threshold 'gone'" in said.why
            assert (await it.agent.answer(a_sample(sure_image(1)))).route == "accepted"

    asyncio.run(scenario())


def test_a_disk_that_takes_nothing_holds_no_order_up_and_is_said(
    state: Path, broker: BrokerAddress
) -> None:
    (state / "fleet.json").mkdir(parents=True)  # nothing can take its place

    async def scenario() -> None:
        its = settings(state, broker)
        its = its.model_copy(update={"fleet": FleetSettings.model_construct(telemetry_s=0.05)})
        async with region(broker, state.name) as north, member(its) as it:
            await north.desires("profile", profile(1, audit_share=1.0).to_bytes())
            await north.hears_of(ReportedProfile, lambda r: r.generation == 1 and r.applied)
            assert (await it.agent.answer(a_sample(sure_image(1)))).route == "audit"
            said = await north.hears_of(Telemetry, lambda t: bool(t.health.trouble))
            assert said.health.trouble.startswith("the fleet's state is not on disk: ")
            assert it.counters.snapshot()["fleet_state_not_written"] >= 1
            (state / "fleet.json").rmdir()
            await north.desires("profile", profile(2).to_bytes())
            await north.hears_of(ReportedProfile, lambda r: r.generation == 2 and r.applied)
            healed = len(north.said(topics.telemetry(north.device)))
            await north.hears(
                lambda: any(
                    not Telemetry.from_bytes(p, 2**20).health.trouble
                    for p in north.said(topics.telemetry(north.device))[healed:]
                )
            )

    asyncio.run(scenario())
    assert kept_file.load(state, 0.0).applied == profile(2)


def test_fleet_messages_take_one_place_of_the_window_and_none_starves(
    state: Path, broker: BrokerAddress
) -> None:
    async def scenario() -> None:
        uplink = {
            "url": f"mqtt://{broker.host}:{broker.port}",
            "window": 2,
            "answer_timeout_s": 5.0,
        }
        its = settings(state, broker, uplink=uplink)
        async with region(broker, state.name) as north, cloud(broker), member(its) as it:
            await north.hears_of(ReportedInventory, lambda _: True)
            asked = [await it.agent.answer(a_sample(unsure_image())) for _ in range(50)]
            assert it.agent.uplink is not None
            waiting = [
                it.agent.uplink.send(Letter(topics.told(north.device), b"%d" % n))
                for n in range(50)
            ]
            assert sum(waiting) >= 48  # the newest took the place of those that waited
            for one in asked:
                assert (await it.agent.final(one.id, 5.0)).source == "cloud"
            await north.hears(lambda: north.said(topics.told(north.device))[-1:] == [b"49"])
            assert len(north.said(topics.told(north.device))) <= 3

    asyncio.run(scenario())


def test_without_a_link_telemetry_is_skipped_and_counted_and_owed(state: Path) -> None:
    async def scenario() -> None:
        its = settings(state, None)
        its = its.model_copy(update={"fleet": FleetSettings.model_construct(telemetry_s=0.01)})
        async with member(its) as it:
            await until(lambda: it.counters.snapshot().get("telemetry_skipped", 0) > 2)

    asyncio.run(scenario())


def test_a_budget_of_a_profile_binds_the_uplink(state: Path, broker: BrokerAddress) -> None:
    async def scenario() -> None:
        its = settings(state, broker, routing={"budget": {"burst_s": 1000}})
        async with region(broker, state.name) as north, cloud(broker) as worker, member(its) as it:
            slow = profile(1, samples_per_s=0.002)  # two at once, then one in 500 s
            await north.desires("profile", slow.to_bytes())
            await north.hears_of(ReportedProfile, lambda r: r.generation == 1)
            asked = [await it.agent.answer(a_sample(unsure_image())) for _ in range(5)]
            await until(lambda: len(worker.got) == 2)
            assert it.agent.outbox_depth[0] >= 3
            await north.desires("profile", profile(2).to_bytes())
            for one in asked:
                assert (await it.agent.final(one.id, 5.0)).source == "cloud"

    asyncio.run(scenario())


def test_the_log_level_of_a_profile_is_the_agents(state: Path, broker: BrokerAddress) -> None:
    root = logging.getLogger()
    before = root.level

    async def scenario() -> None:
        async with region(broker, state.name) as north, member(settings(state, broker)):
            await north.desires("profile", profile(1, log_level="debug").to_bytes())
            await north.hears_of(ReportedProfile, lambda r: r.generation == 1)
            assert root.level == logging.DEBUG
            await north.desires("profile", profile(2).to_bytes())
            await north.hears_of(ReportedProfile, lambda r: r.generation == 2)
            assert root.level == logging.INFO

    try:
        asyncio.run(scenario())
    finally:
        root.setLevel(before)
