import asyncio
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.broker.limits import Limits
from cloud.broker.operations import overview as overview_module
from cloud.broker.operations.counts import Counts
from cloud.broker.operations.status import PAGE_MAX, Tally, session_page, status_of
from cloud.broker.router.router import Router
from cloud.broker.session.messages import Drop
from shared import __version__
from shared.errors import Malformed
from tests.cloud.broker.operations.sample import (
    Figures,
    busy_counts,
    busy_router,
    busy_status,
    join,
    locate,
    overview,
)


def test_the_status_counts_what_is_there() -> None:
    status = busy_status()
    router = busy_router()
    assert (status.version, status.uptime_s, status.connections) == ("1.2.3", 40, 3)
    assert (status.sessions, status.sessions_connected, status.sessions_offline) == (3, 2, 1)
    assert status.subscriptions == 3
    assert (status.retained_messages, status.retained_bytes) == (1, router.retained.held_bytes)
    assert (status.queued_messages, status.inflight_messages) == (3, 1)
    assert status.queued_bytes == router.budget.used_bytes > 0
    none = {str(why): 0 for why in Drop}
    assert status.dropped == none | {"queue_full": 2, "offline_qos_0": 1}
    assert status.counts == busy_counts()
    assert status.store is None
    assert set(status.limits) == {one.name for one in fields(Limits)}


def test_a_status_does_not_change_with_the_broker() -> None:
    router, counts = Router(Limits(), lambda: "x"), Counts()
    counts.closed["CLIENT_LEFT"] = 1
    status = status_of(
        router, Tally(), counts, None, connections=0, started_at=0, now=1, version="1"
    )
    counts.closed["CLIENT_LEFT"] += 1
    counts.connects_refused["QUOTA_EXCEEDED"] += 1
    counts.messages_sent += 1
    assert status.counts == Counts(closed=status.counts.closed)
    assert status.counts.closed == {"CLIENT_LEFT": 1}


def test_what_an_ended_session_lost_is_still_counted() -> None:
    router = busy_router()
    router.close(router.sessions["reader"], 20, publish_will=False)
    router.expire(1_000)
    assert not router.sessions.keys() - {"idle"}
    tally = Tally()
    tally.add(router.sessions.values())
    status = status_of(
        router, tally, Counts(), None, connections=0, started_at=0, now=1_000, version="1"
    )
    assert status.dropped["queue_full"] == 2
    assert status.dropped["session_ended"] == 4


def test_the_store_is_read_when_there_is_one() -> None:
    store = busy_status(Figures(is_failing=True)).store
    assert store is not None
    assert (store.commits, store.rows, store.is_failing, store.last_commit_ms) == (7, 70, True, 2.5)


def test_rows_say_who_is_connected_and_what_waits() -> None:
    page = session_page(busy_router(), locate, 40)
    assert page.next_after is None
    away, idle, reader = page.sessions
    assert [away.client_id, idle.client_id, reader.client_id] == ["away", "idle", "reader"]
    assert (away.is_connected, away.address, away.connected_s) == (False, None, None)
    assert (away.expiry_s, away.ends_in_s) == (100, 70)
    assert away.dropped == {"queue_full": 1, "offline_qos_0": 1}
    assert (reader.username, reader.address, reader.connected_s) == ("anna", "10.0.0.1:0", 39)
    assert (reader.subscriptions, reader.queued_messages, reader.inflight_messages) == (2, 1, 1)
    assert reader.queued_bytes > 0
    assert (reader.expiry_s, reader.ends_in_s) == (60, None)
    assert (idle.queued_messages, idle.queued_bytes, idle.dropped) == (0, 0, {})


def test_a_session_that_is_overdue_ends_in_no_time() -> None:
    page = session_page(busy_router(), locate, 10_000)
    assert page.sessions[0].ends_in_s == 0


IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=3)


@given(ids=st.sets(IDS, max_size=12), prefix=st.just("") | IDS, limit=st.integers(1, 5))
def test_pages_put_together_are_all_sessions_in_order(
    ids: set[str], prefix: str, limit: int
) -> None:
    router = Router(Limits(), lambda: "x")
    for one in sorted(ids, reverse=True):
        join(router, one)
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = session_page(router, locate, 0, after=after, prefix=prefix, limit=limit)
        assert len(page.sessions) <= limit
        found += [one.client_id for one in page.sessions]
        after = page.next_after
    assert found == sorted(one for one in ids if one.startswith(prefix))


def test_a_page_that_the_last_session_fills_is_the_last() -> None:
    assert session_page(busy_router(), locate, 0, limit=3).next_after is None
    assert session_page(busy_router(), locate, 0, limit=2).next_after == "idle"


@pytest.mark.parametrize("limit", [0, -1, PAGE_MAX + 1])
def test_a_page_is_bounded(limit: int) -> None:
    with pytest.raises(Malformed, match=f"limit is {limit}; give 1 to 1000"):
        session_page(busy_router(), locate, 0, limit=limit)


def test_other_work_runs_while_sessions_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview_module, "SLICE", 2)

    async def run() -> list[str]:
        order: list[str] = []

        async def ask() -> None:
            status = await overview(busy_router()).status()
            order.append(f"{status.sessions_connected} of {status.sessions} by {status.version}")

        asking = asyncio.create_task(ask())
        asyncio.get_running_loop().call_soon(order.append, "other work")
        await asking
        return order

    assert asyncio.run(run()) == ["other work", f"2 of 3 by {__version__}"]
