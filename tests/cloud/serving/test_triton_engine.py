"""Triton as an engine: the seam, its errors, several requests at once, a server that dies."""

import asyncio
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from cloud.serving.settings import ModelSettings, TritonSettings
from cloud.serving.triton_engine import TritonEngine, TritonSession
from shared.engines.engine import Absent, Available, OpenOptions
from shared.errors import (
    Disconnected,
    HybridgeError,
    Malformed,
    Overloaded,
    Unavailable,
)
from tests.cloud.serving.oip_server import OipServer, serving, spec
from tests.cloud.serving.pools import play, running, tiny
from tests.tiny_bundle import sure_image, tiny_logits

IMAGES = np.stack([sure_image(n % 3) for n in range(16)])


@pytest.fixture
def server() -> Iterator[OipServer]:
    with serving(tiny_logits, IMAGES) as server:
        yield server


def engine(server: OipServer, **settings: object) -> TritonEngine:
    stated = TritonSettings.model_validate({"url": server.url, "timeout_s": 5.0, **settings})
    return TritonEngine(stated, "tiny", ("logits",))


def session(server: OipServer, **settings: object) -> TritonSession:
    return engine(server, **settings).open(b"", OpenOptions(where="tiny"))


def model(bundle: Path, server: OipServer, **settings: object) -> ModelSettings:
    triton = TritonSettings.model_validate({"url": server.url, "timeout_s": 5.0, **settings})
    return ModelSettings(bundle=bundle, engine="triton", triton=triton)


def test_a_batch_goes_there_and_its_answer_comes_back(server: OipServer) -> None:
    opened = session(server)
    assert np.allclose(opened.run(IMAGES[:5]), tiny_logits(IMAGES[:5]), atol=1e-6)
    (image,), (logits,) = opened.inputs, opened.outputs
    assert (image.name, image.dtype, image.shape) == ("image", "uint8", (None, 4, 4))
    assert (logits.name, logits.dtype, logits.shape) == ("logits", "float32", (None, 3))
    assert server.model.timeouts_us == [5_000_000]


def test_the_largest_batch_is_what_its_configuration_says(server: OipServer) -> None:
    assert session(server).batch_max == 8
    server.model.config = False  # a server of the protocol that is no Triton
    assert session(server).batch_max == 32
    server.model.config, server.model.batch_max = True, 0  # it does not count batches
    assert session(server).batch_max == 32


def test_it_looks_and_says_what_it_found(server: OipServer) -> None:
    assert engine(server).probe() == Available("1", ("server",))
    server.stop()
    found = engine(server).probe()
    assert isinstance(found, Absent)
    assert "is Triton up?" in found.reason


def test_without_its_client_it_says_what_to_install(
    server: OipServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tritonclient.http", None)
    with pytest.raises(Unavailable, match=r"pip install hybridge\[triton\]"):
        session(server)


def test_an_output_that_the_server_does_not_have_is_named(server: OipServer) -> None:
    server.model.outputs = [spec("scores", np.zeros((1, 3), np.float32))]
    with pytest.raises(Malformed, match="has no output 'logits'; it has scores"):
        session(server)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Malformed), (413, Malformed), (401, Unavailable), (404, Unavailable),
        (429, Overloaded), (503, Unavailable), (504, Unavailable), (500, Unavailable),
        (501, Unavailable),
    ],
)  # fmt: skip
def test_what_the_server_says_becomes_one_of_our_errors(
    server: OipServer, status: int, kind: type[HybridgeError]
) -> None:
    opened = session(server)
    server.model.status = status
    with pytest.raises(kind, match=f"said {status}: on purpose") as told:
        opened.run(IMAGES[:1])
    assert type(told.value) is kind
    server.model.status = 200
    assert len(opened.run(IMAGES[:1])) == 1


def test_a_full_queue_is_no_fault_of_the_server(server: OipServer) -> None:
    opened = session(server)
    server.model.status, server.model.says = 503, "Exceeds maximum queue size"
    with pytest.raises(Overloaded, match="queue size"):
        opened.run(IMAGES[:1])


def test_a_silent_server_is_given_up_in_time(server: OipServer) -> None:
    opened = session(server, timeout_s=0.2)
    server.model.silent = True
    with pytest.raises(Disconnected, match=r"did not answer within 0.2 s"):
        opened.run(IMAGES[:1])
    server.model.silent = False
    assert len(opened.run(IMAGES[:1])) == 1


def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_one(server: OipServer) -> None:
    opened = session(server, timeout_s=0.2)
    server.model.together = 2  # holds the first until the second comes
    with pytest.raises(Disconnected, match="did not answer"):
        opened.run(IMAGES[:1])
    assert np.allclose(opened.run(IMAGES[1:2]), tiny_logits(IMAGES[1:2]), atol=1e-6)


def test_a_dead_server_is_told_at_once_and_used_again_when_it_is_back(server: OipServer) -> None:
    opened = session(server)
    opened.run(IMAGES[:1])
    server.stop()
    for _ in range(3):
        with pytest.raises(Disconnected, match="is Triton up"):
            opened.run(IMAGES[:1])
    server.start()
    assert np.allclose(opened.run(IMAGES[:2]), tiny_logits(IMAGES[:2]), atol=1e-6)


def test_an_answer_that_cannot_be_read_is_no_answer(server: OipServer) -> None:
    opened = session(server)
    server.model.garbage = True
    with pytest.raises(Unavailable, match="answered strangely"):
        opened.run(IMAGES[:1])
    server.model.garbage = False
    assert len(opened.run(IMAGES[:1])) == 1


def test_a_server_that_dies_with_the_request_in_hand_is_away(server: OipServer) -> None:
    opened = session(server)
    server.model.silent = True
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(opened.run, IMAGES[:1])
        assert server.model.arrived.wait(10)
        server.stop(abruptly=True)
        with pytest.raises(Disconnected):
            asked.result(10)


def test_an_answer_of_another_shape_or_kind_is_no_answer(server: OipServer) -> None:
    opened = session(server)
    server.model.answers = lambda rows: tiny_logits(rows)[:, :2]
    with pytest.raises(Unavailable, match=r"came as float32\[1, 2\]"):
        opened.run(IMAGES[:1])
    server.model.answers = lambda rows: tiny_logits(rows)[:-1]
    with pytest.raises(Unavailable, match=r"not as float32\[4, 3\]"):
        opened.run(IMAGES[:4])
    server.model.answers = lambda rows: np.zeros((len(rows), 3), np.int64)
    with pytest.raises(Unavailable, match="came as int64"):
        opened.run(IMAGES[:1])


# in the pool


def test_a_pool_serves_it_as_any_other_model(tmp_path: Path, server: OipServer) -> None:
    bundle = tiny(tmp_path, shift=0)

    async def scenario() -> None:
        async with running(model(bundle, server), memory_bytes_max=10_000) as pool:
            served = pool.find("tiny")
            assert served.model.variant == "triton/fp32"
            assert served.signature.platform == "triton"
            assert served.memory_bytes == 0
            ran = await served.batcher.infer(IMAGES[:3], 1e12)
            assert np.allclose(ran.outputs.logits, tiny_logits(IMAGES[:3]), atol=1e-6)

    play(scenario)


def test_several_requests_are_in_flight_at_once_and_no_more(
    tmp_path: Path, server: OipServer
) -> None:
    bundle = tiny(tmp_path, shift=0)

    async def scenario() -> None:
        async with running(model(bundle, server, concurrency=3)) as pool:
            batcher = pool.find("tiny").batcher
            server.model.batches.clear()
            server.model.in_hand_max, server.model.together = 0, 3
            asked = []
            for n in range(40):
                asked.append(asyncio.create_task(batcher.infer(IMAGES[n % 16][None], 1e12)))
                await asyncio.sleep(0)
            ran = await asyncio.gather(*asked)
            for n, each in enumerate(ran):
                assert np.allclose(each.outputs.logits[0], tiny_logits(IMAGES)[n % 16], atol=1e-6)
            assert server.model.in_hand_max == 3
            assert sum(server.model.batches) == 40
            assert max(server.model.batches) <= 8

    play(scenario)


def test_a_server_that_dies_fails_what_is_asked_and_recovers_by_itself(
    tmp_path: Path, server: OipServer
) -> None:
    bundle = tiny(tmp_path, shift=0)

    async def scenario() -> None:
        async with running(model(bundle, server)) as pool:
            batcher = pool.find("tiny").batcher
            await batcher.infer(IMAGES[:1], 1e12)
            await asyncio.to_thread(server.stop)
            lost = await asyncio.gather(
                *(batcher.infer(IMAGES[:1], 1e12) for _ in range(20)), return_exceptions=True
            )
            assert {type(error) for error in lost} == {Disconnected}
            await asyncio.to_thread(server.start)
            ran = await asyncio.gather(*(batcher.infer(IMAGES[:1], 1e12) for _ in range(20)))
            assert len(ran) == 20

    play(scenario)


def test_a_server_with_another_input_is_refused(tmp_path: Path, server: OipServer) -> None:
    bundle = tiny(tmp_path, shift=0)
    server.model.inputs = [spec("image", IMAGES.astype(np.float32))]

    async def scenario() -> None:
        async with running(model(bundle, server)):
            pass

    with pytest.raises(Malformed, match=r"input 'image' is float32\[N, 4, 4\], the bundle says"):
        play(scenario)


def test_a_server_with_other_answers_is_refused(tmp_path: Path, server: OipServer) -> None:
    bundle = tiny(tmp_path, shift=1)  # the server's model answers with shift 0

    async def scenario() -> None:
        async with running(model(bundle, server)):
            pass

    with pytest.raises(Unavailable, match="answers otherwise than the reference: largest diff"):
        play(scenario)


def test_settings_name_a_server_with_the_engine_or_neither(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="belong together"):
        ModelSettings(bundle=tmp_path, engine="triton")
    with pytest.raises(ValueError, match="belong together"):
        ModelSettings(bundle=tmp_path, triton=TritonSettings(url="http://localhost:8000"))
    for url in ("localhost:8000", "http://user:secret@host", "http://host/path", "ftp://host"):
        with pytest.raises(ValueError, match="url"):
            TritonSettings(url=url)
