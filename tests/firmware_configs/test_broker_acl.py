"""The example ACL gives each part of Hybridge its own topics and nobody anything else."""

from pathlib import Path

import pytest

from cloud.broker.access.files import read_acl
from cloud.broker.access.identity import Identity
from cloud.broker.access.rules import Rules
from cloud.fleet.setup.acl import ACL
from shared import topics
from shared.ids import device_id

FILE = Path(__file__).parents[2] / "firmware_configs" / "broker" / "acl.conf"
CAM = device_id("cam-1")
OTHER = device_id("cam-2")


def rules(username: str | None, client_id: str = "some-client") -> Rules:
    return read_acl(FILE).rules(Identity(client_id, username))


SAMPLES = [topics.escalations(CAM), topics.state(CAM)]
REPORTS = [topics.state(CAM), topics.telemetry(CAM), topics.told(CAM),
           topics.reported(CAM, "model"), topics.reported(CAM, "profile")]  # fmt: skip
UP = [topics.escalations(CAM), *REPORTS]
ORDERS = [topics.desired(CAM, "model"), topics.desired(CAM, "profile"), topics.ask(CAM)]
DOWN = [topics.answers(CAM), *ORDERS]
TRUST = ["hy/v1/tuf/root.json", "hy/v1/tuf/timestamp.json"]
ELSEWHERE = ["a", "hy/v1", "hy/v1/cam-1/up", "hy/v1/cam-1/up/tel/temperature", "hy/v1/cam-1/up/job/7",
             "hy/v1/cam-1/up/reported", "hy/v1/cam-1/up/reported/model/x", "hy/v1/cam-1", "hy/v1/cam-1/other", "hy/v2/cam-1/up/esc", "$SYS/a",
             "hy/v1/tuf/a/b"]  # fmt: skip
EVERYTHING = UP + DOWN + TRUST + ELSEWHERE


def may(found: Rules) -> tuple[list[str], list[str]]:
    """What may be written and read."""
    return (
        [topic for topic in EVERYTHING if found.may_publish(topic)],
        [topic for topic in EVERYTHING if found.may_subscribe(topic)],
    )


def test_a_device_writes_up_and_reads_down_and_trust() -> None:
    assert may(rules("cam-1")) == (UP, DOWN + TRUST)


def test_a_device_has_nothing_of_another() -> None:
    assert may(rules("cam-2", client_id="cam-1")) == ([], TRUST)
    device = rules("cam-1")
    assert not device.may_publish(topics.escalations(OTHER))
    for asked in ("#", "hy/#", "hy/v1/+/down/ans", "hy/v1/+/up/esc", "hy/v1/cam-1/#", "$SYS/#"):
        assert not device.may_subscribe(asked), asked
    for asked in ("hy/v1/cam-1/down/#", "hy/v1/cam-1/down/+", "hy/v1/tuf/+"):
        assert device.may_subscribe(asked), asked


def test_a_worker_reads_samples_and_presence_and_writes_answers() -> None:
    worker = rules("worker")
    assert may(worker) == ([topics.answers(CAM)], SAMPLES + TRUST)
    _, _, escalations = topics.ESCALATIONS_SHARED.split("/", 2)
    for asked in (escalations, topics.STATES):
        assert worker.may_subscribe(asked)
    for asked in ("#", "hy/v1/#", "hy/v1/+/up/#", topics.TELEMETRY, "hy/v1/+/down/ans", "$SYS/#"):
        assert not worker.may_subscribe(asked)


def test_the_fleet_reads_reports_and_writes_orders_and_sees_no_sample() -> None:
    fleet = rules("fleet")
    assert may(fleet) == (ORDERS, REPORTS + TRUST)
    for asked in (topics.STATES, topics.REPORTED, topics.TELEMETRY, topics.TOLD):
        assert fleet.may_subscribe(asked)
    for asked in ("#", "hy/v1/+/up/#", "hy/v1/+/up/esc", "hy/v1/+/down/desired/+", "$SYS/#"):
        assert not fleet.may_subscribe(asked)


def test_what_the_fleet_is_set_up_with_is_this_file() -> None:
    assert FILE.read_text("utf-8") == ACL


def test_the_signer_writes_trust_metadata_alone() -> None:
    assert may(rules("trust")) == (TRUST, TRUST)


@pytest.mark.parametrize("client_id", ["cam-1", "worker", "fleet", "trust", "#"])
def test_an_anonymous_client_has_nothing(client_id: str) -> None:
    assert may(rules(None, client_id)) == ([], [])
    assert not rules(None, client_id).may_subscribe("#")


@pytest.mark.parametrize("username", ["+", "#", "cam-1/up", "+/up", "$SYS", "tuf"])
def test_a_name_that_is_no_device_id_opens_nothing(username: str) -> None:
    assert may(rules(username)) == ([], TRUST)
    assert not rules(username).may_subscribe("hy/v1/+/down/#")
