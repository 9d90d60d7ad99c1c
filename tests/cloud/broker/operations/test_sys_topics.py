import math
from dataclasses import replace

from cloud.broker.operations.counts import Counts
from cloud.broker.operations.status import Status
from cloud.broker.operations.sys_topics import ROOT, Loads, changed, step, topics
from cloud.broker.session.messages import Drop
from tests.cloud.broker.operations.sample import Figures, busy_status


def said(status: Status, loads: Loads | None = None) -> dict[str, str]:
    found = topics(status, loads or Loads())
    assert all(topic.startswith(ROOT) for topic in found)
    return {topic.removeprefix(ROOT): payload.decode() for topic, payload in found.items()}


def test_mosquitto_s_names_say_what_mosquitto_s_say() -> None:
    found = said(busy_status())
    assert found["version"] == "hybridge version 1.2.3"
    assert found["uptime"] == "40 seconds"
    assert {name: found[name] for name in found if name.startswith("clients/")} == {
        "clients/total": "3", "clients/connected": "2", "clients/disconnected": "1",
        "clients/maximum": "3",
    }  # fmt: skip
    assert (found["messages/received"], found["messages/sent"]) == ("10", "20")
    assert (found["publish/messages/received"], found["publish/messages/sent"]) == ("5", "6")
    assert found["publish/messages/dropped"] == "3"
    assert (found["bytes/received"], found["bytes/sent"]) == ("1000", "2000")
    assert found["retained messages/count"] == "1"
    assert found["subscriptions/count"] == "3"
    assert found["messages/inflight"] == "1"
    assert found["messages/stored"] == found["store/messages/count"] == "5"


def test_each_reason_and_refusal_has_a_topic() -> None:
    found = said(busy_status())
    assert {name for name in found if name.startswith("hybridge/dropped/")} == {
        f"hybridge/dropped/{why}" for why in Drop
    }
    assert found["hybridge/dropped/queue_full"] == "2"
    assert found["hybridge/refused/connects"] == "2"
    assert found["hybridge/refused/publishes"] == "1"
    assert found["hybridge/refused/subscribes"] == "4"


def test_only_a_broker_with_a_store_speaks_of_one() -> None:
    assert not [name for name in said(busy_status()) if name.startswith("hybridge/store/")]
    found = said(busy_status(Figures(is_failing=True)))
    assert found["hybridge/store/commits"] == "7"
    assert found["hybridge/store/failing"] == "1"


def at(uptime_s: float, received: int) -> Status:
    counts = Counts(messages_received=received)
    return replace(busy_status(), uptime_s=uptime_s, counts=counts)


def test_averages_move_towards_the_rate_as_their_span_passes() -> None:
    loads = step(Loads(), at(60, 600))
    found = said(at(60, 600), loads)
    assert found["load/messages/received/1min"] == f"{600 * (1 - math.exp(-1)):.2f}"
    assert found["load/messages/received/5min"] == f"{600 * (1 - math.exp(-0.2)):.2f}"
    for minute in range(2, 12):
        loads = step(loads, at(60 * minute, 600 * minute))
    assert abs(float(said(at(660, 6_600), loads)["load/messages/received/1min"]) - 600) < 0.1
    loads = step(loads, at(720, 6_600))  # silent for a minute
    assert math.isclose(loads.rates["load/messages/received/1min"], 600 / math.e, rel_tol=1e-3)


def test_a_step_without_time_changes_nothing() -> None:
    loads = step(Loads(), at(60, 600))
    assert step(loads, at(60, 900)) is loads


def test_only_what_changed_is_published() -> None:
    before = topics(busy_status(now=40), Loads())
    after = topics(busy_status(now=50), Loads())
    assert changed({}, before) == before
    assert changed(before, after) == {f"{ROOT}uptime": b"50 seconds"}
