"""What a device without a model says follows the fleet's documents, and its rules."""

import json

import pytest

from shared.fleet.desired import DesiredModel
from shared.fleet.reported import DevicePhase, ReportedModel
from shared.fleet.telemetry import BYTES_MAX, Telemetry
from simulations.light_devices.behaviour import Behaviour
from simulations.light_devices.device import LightDevice, Message, Version

OLD, NEW = Version("1.0.0", "a" * 64), Version("1.1.0", "b" * 64)


def device(**behaviours: Behaviour) -> LightDevice:
    known = {name.replace("_", "."): one for name, one in behaviours.items()}
    return LightDevice("d1", "m", OLD, {k.removeprefix("v"): v for k, v in known.items()}, seed=3)


def desired(generation: int, version: Version = NEW, **more: object) -> bytes:
    return DesiredModel(
        generation=generation, model="m", version=version.version,
        manifest_sha256=version.manifest_sha256, **more,
    ).to_bytes()  # type: ignore[arg-type]  # fmt: skip


def reports(messages: list[Message]) -> list[ReportedModel]:
    return [ReportedModel.model_validate_json(m.payload) for m in messages]


TOPIC = "hy/v1/d1/down/desired/model"


def test_a_live_version_takes_over_and_starts_a_tally() -> None:
    one = device()
    before = Telemetry.model_validate_json(one.telemetry(100.0, 30).payload)
    said = reports(one.received(TOPIC, desired(1), 101.0))
    assert [r.phase for r in said] == [DevicePhase.ACCEPTED, DevicePhase.COMMITTED]
    assert (said[-1].version, said[-1].manifest_sha256) == ("1.1.0", "b" * 64)
    after = Telemetry.model_validate_json(one.telemetry(131.0, 30).payload)
    assert (before.tally.version, after.tally.version) == ("1.0.0", "1.1.0")
    assert after.tally.started == before.tally.started + 1
    assert after.sequence == before.sequence + 1


def test_copies_and_old_generations_change_nothing() -> None:
    one = device()
    one.received(TOPIC, desired(2), 1.0)
    assert one.received(TOPIC, desired(2), 2.0) == []
    assert one.received(TOPIC, desired(1, OLD), 3.0) == []
    assert one.received(TOPIC, b"{", 4.0) == []
    assert one.runs == NEW


@pytest.mark.parametrize(("fault", "golden"), [("load", False), ("golden", True), ("slow", False)])
def test_a_faulty_version_is_rejected_and_the_old_one_runs_on(fault: str, *, golden: bool) -> None:
    one = device(v1_1_0=Behaviour(fault=fault))  # type: ignore[arg-type]
    said = reports(one.received(TOPIC, desired(1), 1.0))
    assert said[-1].phase is DevicePhase.REJECTED
    assert said[-1].golden_failed is golden
    assert said[-1].why
    assert one.runs == OLD


def test_in_shadow_both_run_and_pairs_tell_the_worse_one() -> None:
    one = device(v1_1_0=Behaviour(accuracy=0.93))
    said = reports(one.received(TOPIC, desired(1, stage="shadow", audit_share=0.5), 1.0))
    assert said[-1].phase is DevicePhase.STAGED
    assert said[-1].candidate == "1.1.0"
    one.telemetry(1.0, 30)
    document = Telemetry.model_validate_json(one.telemetry(10_001.0, 30).payload)
    assert document.tally.version == "1.0.0"
    shadow = document.shadow
    assert shadow is not None
    pairs = shadow.only_active_right - shadow.only_candidate_right
    seen = pairs + 2 * shadow.only_candidate_right + shadow.both_right + shadow.both_wrong
    assert abs(pairs / seen - 0.02) < 0.006
    live = reports(one.received(TOPIC, desired(2, stage="live"), 10_002.0))
    assert live[-1].phase is DevicePhase.COMMITTED


def test_rates_are_those_of_the_behaviour() -> None:
    one = device(v1_0_0=Behaviour(accuracy=0.9, escalated=0.2, accuracy_escalated=0.7))
    one.telemetry(0.0, 30)
    tally = Telemetry.model_validate_json(one.telemetry(40_000.0, 30).payload).tally
    assert abs(tally.escalated / tally.samples - 0.2) < 0.01
    assert abs(tally.disagreed / tally.answered - 0.3) < 0.02
    assert sum(tally.latency) == sum(map(sum, tally.confidence)) == tally.samples


def test_sizes_and_presence() -> None:
    one = device()
    assert len(one.telemetry(0.0, 30).payload) < BYTES_MAX
    assert json.loads(one.will().payload) == {
        "online": False, "model": "m", "model_version": "1.0.0"
    }  # fmt: skip
    assert [m.topic.split("/up/")[1] for m in one.connected(1.0)] == [
        "state", "reported/model", "reported/profile", "reported/inventory"
    ]  # fmt: skip
