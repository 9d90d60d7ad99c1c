"""The clients that people have already: `tritonclient.http`, unchanged."""

import asyncio

import numpy as np
import pytest
import tritonclient.http as sync_triton
import tritonclient.http.aio as aio_triton
from tritonclient.utils import InferenceServerException

from tests.edge.api.running import BRIGHT, DARK, GREY, images, running


def _input(rows: np.ndarray, *, binary: bool = True) -> sync_triton.InferInput:
    tensor = sync_triton.InferInput("image", list(rows.shape), "UINT8")
    return tensor.set_data_from_numpy(rows, binary_data=binary)


@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
@pytest.mark.parametrize("binary", [True, False])
def test_the_synchronous_client(binary: bool, compression: str | None) -> None:
    def ask(port: int) -> None:
        client = sync_triton.InferenceServerClient(f"127.0.0.1:{port}")
        try:
            assert client.is_server_live()
            assert client.is_server_ready()
            assert client.is_model_ready("tiny-edge")
            assert client.is_model_ready("tiny-edge", "1.2.3")
            assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
            model = client.get_model_metadata("tiny-edge")
            assert model["inputs"] == [{"name": "image", "datatype": "UINT8", "shape": [-1, 4, 4]}]
            assert [output["name"] for output in model["outputs"]][:2] == ["label", "index"]
            result = client.infer(
                "tiny-edge",
                [_input(images(DARK, BRIGHT), binary=binary)],
                request_id="r1",
                request_compression_algorithm=compression,
                response_compression_algorithm=compression,
            )
            assert result.as_numpy("label").tolist() == [b"dark", b"bright"]
            assert result.as_numpy("index").tolist() == [0, 2]
            assert result.as_numpy("confidence").dtype == np.float32
            assert result.as_numpy("source").tolist() == [b"edge", b"edge"]
            assert result.as_numpy("final").tolist() == [True, True]
            response = result.get_response()
            assert (response["id"], response["model_version"]) == ("r1", "1.2.3")
        finally:
            client.close()

    async def scenario() -> None:
        async with running() as server:
            await asyncio.to_thread(ask, server.port)
            assert [sample.position for sample in server.agent.samples] == ["r1[0]", "r1[1]"]

    asyncio.run(scenario())


def test_the_asynchronous_client_waits_for_the_final_answer() -> None:
    async def scenario() -> None:
        async with (
            running() as server,
            aio_triton.InferenceServerClient(f"127.0.0.1:{server.port}") as client,
        ):
            asking = asyncio.create_task(
                client.infer(
                    "tiny-edge",
                    [_input(images(GREY))],
                    model_version="1.2.3",
                    outputs=[
                        sync_triton.InferRequestedOutput("label", binary_data=False),
                        sync_triton.InferRequestedOutput("confidence"),
                    ],
                    parameters={"wait": "final"},
                )
            )
            await server.agent.escalated.wait()
            sample = server.agent.samples[0].id
            server.agent.cloud_says(sample, 2)
            result = await asking
            assert result.as_numpy("label").tolist() == ["bright"]
            assert result.as_numpy("confidence").tolist() == [np.float32(0.9)]
            assert result.as_numpy("index") is None  # not asked for
            assert result.get_response()["parameters"] == {
                "sample_id": str(sample), "source": "cloud", "final": True,
                "model_version": "7.0.0",
            }  # fmt: skip

    asyncio.run(scenario())


def test_a_refusal_reaches_the_client_in_words() -> None:
    def ask(port: int) -> None:
        client = sync_triton.InferenceServerClient(f"127.0.0.1:{port}")
        try:
            with pytest.raises(InferenceServerException, match=r"send UINT8\[N,4,4\]") as caught:
                client.infer("tiny-edge", [_input(images(GREY)[:, :3])])
            assert caught.value.status() == "400"
            with pytest.raises(InferenceServerException, match="runs 'tiny-edge'"):
                client.infer("other", [_input(images(GREY))])
            assert not client.is_model_ready("other")
        finally:
            client.close()

    async def scenario() -> None:
        async with running() as server:
            await asyncio.to_thread(ask, server.port)

    asyncio.run(scenario())
