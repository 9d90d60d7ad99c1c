"""The fleet's client against a server whose answers are prepared."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from cloud.fleet.client.client import FleetClient
from cloud.fleet.client.settings import FleetClientSettings
from shared.errors import Conflict, Malformed, TooLarge, Unavailable
from tests.cloud.cli.rollout_views import view
from tests.cloud.registry.client.scripted_server import CUT, ok, problem, response, scripted

QUICK = FleetClientSettings(
    patience_s=5.0, pause_s_min=0.001, pause_s_max=0.002, silence_s_max=5.0, page=2
)


def run(work: Callable[[], Coroutine[object, object, None]]) -> None:
    asyncio.run(work())


def devices(*names: str, following: str | None = None) -> bytes:
    return ok({"devices": [{"id": name} for name in names], "next": following})


def test_devices_come_page_by_page() -> None:
    async def work() -> None:
        pages = (devices("a", "b", following="b"), devices("c"))
        async with scripted(*pages) as server, FleetClient([server.url], "k", QUICK) as fleet:
            found = await fleet.devices("site=lyon")
        assert [one.id for one in found] == ["a", "b", "c"]
        assert [path for _, path, _ in server.asked] == [
            "/v1/devices?selector=site%3Dlyon&limit=2",
            "/v1/devices?selector=site%3Dlyon&after=b&limit=2",
        ]

    run(work)


@pytest.mark.parametrize("again", ["b", "a"])
def test_pages_that_go_round_end(again: str) -> None:
    async def work() -> None:
        pages = (devices("a", "b", following="b"), devices("c", following=again))
        async with scripted(*pages) as server, FleetClient([server.url], None, QUICK) as fleet:
            assert len(await fleet.devices()) == 3

    run(work)


def test_a_list_without_end_is_refused() -> None:
    async def work() -> None:
        few = QUICK.model_copy(update={"devices_max": 3})
        pages = (devices("a", "b", following="b"), devices("c", "d", following="d"))
        async with scripted(*pages) as server, FleetClient([server.url], None, few) as fleet:
            with pytest.raises(TooLarge, match="over 3 devices"):
                await fleet.devices()

    run(work)


def test_no_more_is_asked_for_than_is_wanted() -> None:
    async def work() -> None:
        page = devices("a", following="a")
        async with scripted(page) as server, FleetClient([server.url], None, QUICK) as fleet:
            assert [one.id for one in await fleet.devices(at_most=1)] == ["a"]
        assert [path for _, path, _ in server.asked] == ["/v1/devices?limit=1"]

    run(work)


@pytest.mark.parametrize("last", [(3,), (1, 2)], ids=["ends", "goes round"])
def test_a_long_history_comes_page_by_page(last: tuple[int, ...]) -> None:
    def lines(*numbers: int) -> bytes:
        line = {"at": 0.0, "kind": "note", "actor": "rollout", "words": ""}
        return ok({"events": [line | {"seq": number} for number in numbers]})

    async def work() -> None:
        pages = (lines(1, 2), lines(*last))
        async with scripted(*pages) as server, FleetClient([server.url], None, QUICK) as fleet:
            found = await fleet.rollouts.history("lyon-12")
        assert [one.seq for one in found] == [1, 2, *(n for n in last if n > 2)]
        assert [path.partition("?")[2] for _, path, _ in server.asked] == [
            "limit=2", "after=2&limit=2",
        ]  # fmt: skip

    run(work)


def test_a_watch_hands_back_the_tag_that_it_was_given() -> None:
    async def work() -> None:
        body = view().model_dump_json().encode()
        first = response(200, body, 'ETag: W/"7-3"\r\n')
        async with (
            scripted(first, response(200, body)) as server,
            FleetClient([server.url], None, QUICK) as fleet,
        ):
            seen, tag = await fleet.rollouts.changed("lyon-12", None)
            assert (seen, tag) == (view(), "7-3")
            _, tag = await fleet.rollouts.changed("lyon-12", tag)
            assert tag == "2"  # without a tag, the revision
        assert [path for _, path, _ in server.asked] == [
            "/v1/rollouts/lyon-12/watch",
            "/v1/rollouts/lyon-12/watch?revision=7-3&wait_s=10.0",
        ]

    run(work)


def test_a_command_says_what_was_seen_and_is_not_done_twice() -> None:
    async def work() -> None:
        async with scripted(CUT) as server, FleetClient([server.url], None, QUICK) as fleet:
            with pytest.raises(Unavailable, match="may have been done"):
                await fleet.rollouts.tell("undo", "lyon-12", "x", 4)
        ((method, path, headers),) = server.asked
        assert (method, path, headers["if-match"]) == ("POST", "/v1/rollouts/lyon-12/undo", '"4"')

    run(work)


def test_what_goes_goes_as_it_was_seen() -> None:
    async def work() -> None:
        gone = response(204, b"")
        async with scripted(gone, gone) as server, FleetClient([server.url], None, QUICK) as fleet:
            await fleet.remove("cam-1", "gone", 7)
            await fleet.remove_group("lyon", "closed", 3)
        assert [(method, headers["if-match"]) for method, _, headers in server.asked] == [
            ("DELETE", '"7"'), ("DELETE", '"3"'),
        ]  # fmt: skip

    run(work)


def test_whoever_was_first_wins_in_the_fleets_words() -> None:
    async def work() -> None:
        answer = problem(Conflict("anna labelled it"))
        async with scripted(answer) as server, FleetClient([server.url], None, QUICK) as fleet:
            with pytest.raises(Conflict, match="anna labelled it"):
                await fleet.label("cam-1", {"site": "lyon"}, 3)
        assert server.asked[0][2]["if-match"] == '"3"'

    run(work)


@pytest.mark.parametrize(
    "answer",
    [
        ok({"name": "x"}), ok([]), ok(None), response(200, b"<html>"), response(200, b""),
        ok({"name": "x", "devices": -1, "online": 0, "rollouts": 0, "head": 0}),
    ],
)  # fmt: skip
def test_an_answer_of_something_else_is_refused(answer: bytes) -> None:
    async def work() -> None:
        async with scripted(answer) as server, FleetClient([server.url], None, QUICK) as fleet:
            with pytest.raises(Malformed, match="fleet"):
                await fleet.state()

    run(work)


def test_names_stay_within_their_part_of_a_path() -> None:
    async def work() -> None:
        async with scripted(devices()) as server, FleetClient([server.url], None, QUICK) as fleet:
            with pytest.raises(Malformed):
                await fleet.device("../rollouts?x#y")
        assert server.asked[0][1] == "/v1/devices/..%2Frollouts%3Fx%23y"

    run(work)


def test_a_url_that_is_none_is_named_as_the_fleets() -> None:
    with pytest.raises(Malformed, match="fleet 'nonsense'"):
        FleetClient(["nonsense"])
