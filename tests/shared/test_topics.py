import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared import topics
from shared.errors import Malformed
from shared.ids import DeviceId, device_id

DEVICES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", fullmatch=True).map(DeviceId)


@given(DEVICES)
def test_build_and_parse(device: DeviceId) -> None:
    topic = topics.escalations(device)
    assert topics.device_of_escalation(topic) == device
    assert topic.count("/") == 4
    assert not set("+#$") & set(topic)


def test_a_devices_topics_differ() -> None:
    device = device_id("cam-1")
    built = {topics.escalations(device), topics.state(device), topics.answers(device)}
    assert len(built) == 3
    assert topics.ESCALATIONS_SHARED.endswith(topics.escalations(DeviceId("+")))
    assert topics.state(DeviceId("+")) == topics.STATES


@pytest.mark.parametrize(
    "topic",
    [
        "",
        "hy/v1/d/up",
        "hy/v1/d/up/esc/more",
        "hy/v1/d/up/state",
        "hy/v1/d/down/ans",
        "hy/v2/d/up/esc",
        "hy/v1//up/esc",
        "hy/v1/a b/up/esc",
        "/hy/v1/d/up/esc",
        "$share/workers/hy/v1/d/up/esc",
    ],
)
def test_not_an_escalation_topic(topic: str) -> None:
    with pytest.raises(Malformed):
        topics.device_of_escalation(topic)
