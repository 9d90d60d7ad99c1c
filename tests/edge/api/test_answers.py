"""Answers by id: now, waited for, streamed."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from edge.answers import Sample
from edge.api.server import COUNTERS
from edge.api.settings import Limits
from shared.errors import Unavailable
from shared.ids import SampleId
from shared.new_ids import new_sample_id
from tests.edge.api.fake_agent import FakeAgent
from tests.edge.api.running import DARK, GREY, Running, images, running


async def put(agent: FakeAgent, shade: int) -> SampleId:
    sample = Sample(new_sample_id(), images(shade)[0], captured_at=0.0, arrived=0.0)
    return (await agent.answer(sample)).id


async def get(server: Running, path: str) -> tuple[int, dict[str, Any]]:
    async with server.http.get(path) as response:
        return response.status, await response.json(content_type=None)


def test_a_final_answer_is_a_200_and_a_provisional_one_a_202() -> None:
    async def scenario() -> None:
        async with running() as server:
            sure, unsure = await put(server.agent, DARK), await put(server.agent, GREY)
            status, answer = await get(server, f"/v1/answers/{sure}?wait_ms=10000")
            assert (status, answer["label"], answer["final"]) == (200, "dark", True)
            status, answer = await get(server, f"/v1/answers/{unsure}")
            assert (status, answer["source"], answer["final"]) == (202, "edge", False)
            status, answer = await get(server, f"/v1/answers/{unsure}?wait_ms=1")
            assert (status, answer["final"]) == (202, False)

    asyncio.run(scenario())


def test_waiting_ends_with_the_clouds_answer() -> None:
    async def scenario() -> None:
        async with running(limits=Limits(wait_ms_max=60_000)) as server:
            sample = await put(server.agent, GREY)
            asking = asyncio.create_task(get(server, f"/v1/answers/{sample}?wait_ms=60000"))
            asyncio.get_running_loop().call_later(0.02, server.agent.cloud_says, sample, 2)
            status, answer = await asking
            assert (status, answer["label"], answer["source"]) == (200, "bright", "cloud")
            assert (answer["model_version"], answer["edge_index"]) == ("7.0.0", 1)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/v1/answers/nonsense", 400, "not a UUID"),
        ("/v1/answers/01890a5d-ac96-774b-bcce-b302099a8057", 404, "not remembered"),
        ("/v1/answers/01890a5d-ac96-774b-bcce-b302099a8057?wait_ms=5", 404, "not remembered"),
    ],
)
def test_answers_that_are_not_here(path: str, status: int, words: str) -> None:
    async def scenario() -> None:
        async with running() as server:
            got, problem = await get(server, path)
            assert got == status
            assert words in problem["detail"]

    asyncio.run(scenario())


@pytest.mark.parametrize("wait", ["soon", "-1", "nan", "inf", ""])
def test_waits_that_are_none(wait: str) -> None:
    async def scenario() -> None:
        async with running() as server:
            sample = await put(server.agent, GREY)
            status, problem = await get(server, f"/v1/answers/{sample}?wait_ms={wait}")
            assert status == 400
            assert "milliseconds >= 0" in problem["detail"]

    asyncio.run(scenario())


async def next_event(response: aiohttp.ClientResponse) -> bytes:
    return await response.content.readuntil(b"\n\n")


def test_a_stream_brings_final_answers_and_signs_of_life() -> None:
    async def scenario() -> None:
        async with running(limits=Limits(heartbeat_s=0.01)) as server, asyncio.timeout(10):
            sample = await put(server.agent, GREY)
            async with server.http.get("/v1/answers/stream") as response:
                assert response.content_type == "text/event-stream"
                assert await next_event(response) == b": hello\n\n"
                assert await next_event(response) == b": still here\n\n"
                server.agent.cloud_says(sample, 2)
                while (event := await next_event(response)).startswith(b":"):
                    pass
                lines = event.decode().splitlines()
                assert lines[:2] == ["event: answer", f"id: {sample}"]
                answer = json.loads(lines[2].removeprefix("data: "))
                assert (answer["source"], answer["final"]) == ("cloud", True)
            async with server.http.get("/v2/health/live"):
                pass
        assert server.agent.streams[0].closed

    asyncio.run(scenario())


def test_a_stream_ends_when_the_server_stops() -> None:
    async def scenario() -> None:
        reading = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(3), aiohttp.ClientSession() as http:
            async with running() as server:
                response = await http.get(f"http://127.0.0.1:{server.port}/v1/answers/stream")
                await next_event(response)
                reading = asyncio.create_task(response.content.read())
            assert await reading == b""
            response.close()
        assert server.agent.streams[0].closed

    asyncio.run(scenario())


def test_an_agent_that_ends_its_streams_is_no_slow_reader() -> None:
    async def scenario() -> None:
        async with running() as server, asyncio.timeout(10):
            sample = await put(server.agent, GREY)
            async with server.http.get("/v1/answers/stream") as response:
                await next_event(response)
                server.agent.cloud_says(sample, 2)
                server.agent.streams[0].end(Unavailable("the agent is shutting down"))
                assert f"id: {sample}".encode() in await response.content.read()
            assert "stream_slow" not in server.app[COUNTERS].snapshot()
            assert server.agent.streams[0].closed

    asyncio.run(scenario())


def test_what_is_ready_is_written_before_the_server_stops() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(3), aiohttp.ClientSession() as http:
            async with running() as server:
                samples = [await put(server.agent, GREY) for _ in range(5)]
                response = await http.get(f"http://127.0.0.1:{server.port}/v1/answers/stream")
                await next_event(response)
                for sample in samples:
                    server.agent.cloud_says(sample, 2)
            assert (await response.content.read()).count(b"event: answer") == 5
            response.close()

    asyncio.run(scenario())


def test_a_reader_that_falls_behind_in_the_agent_is_closed_and_counted() -> None:
    async def scenario() -> None:
        async with running(FakeAgent(stream_bound=1)) as server, asyncio.timeout(10):
            samples = [await put(server.agent, GREY) for _ in range(3)]
            async with server.http.get("/v1/answers/stream") as response:
                await next_event(response)
                for sample in samples:  # no turn of the loop between them
                    server.agent.cloud_says(sample, 2)
                with pytest.raises(aiohttp.ClientError):
                    await response.content.read()
            assert server.app[COUNTERS].snapshot()["stream_slow"] == 1
            assert server.agent.streams[0].closed

    asyncio.run(scenario())


def test_a_reader_that_takes_nothing_is_closed_and_counted() -> None:
    async def scenario() -> None:
        limits = Limits(stream_stall_s_max=0.05)
        async with running(limits=limits) as server, asyncio.timeout(20):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # a reading transport
            writer.write(b"GET /v1/answers/stream HTTP/1.1\r\nHost: edge\r\n\r\n")
            await server.agent.subscribed.wait()
            sample = await put(server.agent, GREY)
            server.agent.cloud_says(sample, 2)
            stream, answer = server.agent.streams[0], server.agent.find(sample)
            assert answer is not None
            while not stream.closed:
                stream.put(answer)
                await asyncio.sleep(0)
            assert server.app[COUNTERS].snapshot()["stream_slow"] == 1
            writer.close()

    asyncio.run(scenario())


def test_streams_beyond_the_bound_are_refused_and_one_whose_reader_left_makes_room() -> None:
    async def scenario() -> None:
        limits = Limits(streams_max=1, heartbeat_s=0.01)
        async with running(limits=limits) as server, asyncio.timeout(10):
            async with server.http.get("/v1/answers/stream") as first:
                await next_event(first)
                async with server.http.get("/v1/answers/stream") as second:
                    assert second.status == 503
            status = 503
            while status == 503:  # until a heartbeat finds the first reader gone
                async with server.http.get("/v1/answers/stream") as third:
                    status = third.status
            assert server.app[COUNTERS].snapshot()["stream_left"] == 1

    asyncio.run(scenario())
