import asyncio

import pytest

from cloud.ingest.downlink import Downlink
from shared.errors import Disconnected
from shared.wire.envelope import Refusal, pack_downlink
from tests.cloud.ingest.fakes import FakeLink
from tests.cloud.samples import sample

MESSAGES = [pack_downlink(Refusal(sample(n), "draining", "", None)) for n in range(5)]


def order(link: FakeLink) -> list[int]:
    return [reply.id.int for reply in link.replies()]


def test_what_the_window_has_no_room_for_follows_in_order_as_pubacks_come() -> None:
    async def scenario() -> None:
        replies.through(link)
        sent = [replies.send("t", message) for message in MESSAGES]
        assert order(link) == [0, 1]
        link.pubacks()
        await asyncio.sleep(0)
        assert order(link) == [0, 1, 2, 3]
        link.pubacks()
        await asyncio.sleep(0)
        link.pubacks()
        assert await asyncio.gather(*sent) == [0] * 5

    link, replies = FakeLink(window=2, holds_pubacks=True), Downlink()
    asyncio.run(scenario())
    assert order(link) == [0, 1, 2, 3, 4]


def test_a_lost_link_fails_what_was_sent_and_what_waited() -> None:
    async def scenario() -> None:
        replies.through(link)
        sent = [replies.send("t", message) for message in MESSAGES]
        link.go_down()
        replies.lost()
        ended = await asyncio.gather(*sent, return_exceptions=True)
        assert all(isinstance(one, Disconnected) for one in ended)
        link.up = True
        link.holds_pubacks = False
        assert await replies.send("t", MESSAGES[0]) == 0

    link, replies = FakeLink(window=2, holds_pubacks=True), Downlink()
    asyncio.run(scenario())
    assert order(link) == [0, 1, 0]


@pytest.mark.parametrize("wired", [True, False])
def test_without_a_link_nothing_waits_for_ever(*, wired: bool) -> None:
    async def scenario() -> None:
        replies = Downlink()
        if wired:
            replies.through(FakeLink(up=False))
        with pytest.raises(Disconnected):
            await replies.send("t", MESSAGES[0])

    asyncio.run(scenario())
