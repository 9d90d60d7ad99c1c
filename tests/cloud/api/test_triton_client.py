"""The clients that people have already, unchanged: `tritonclient.http`, sync and aio."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as sync_triton
import tritonclient.http.aio as aio_triton
from numpy.typing import NDArray
from tritonclient.utils import InferenceServerException

from tests.cloud.api.servers import MODEL, OTHER, SPARE, Running, lanes, server
from tests.tiny_bundle import sure_image, tiny_logits

Client = Callable[..., Any]
IMAGES = np.stack([sure_image(0), sure_image(1), sure_image(2)])
OUTPUTS = ("logits", "probabilities", "label", "index", "confidence", "source")


def sync_client(running: Running, method: str, *args: Any, **kwargs: Any) -> Any:
    client = sync_triton.InferenceServerClient(running.address)
    try:
        return getattr(client, method)(*args, **kwargs)
    finally:
        client.close()


def aio_client(running: Running, method: str, *args: Any, **kwargs: Any) -> Any:
    async def main() -> Any:
        async with aio_triton.InferenceServerClient(running.address) as client:
            return await getattr(client, method)(*args, **kwargs)

    return asyncio.run(main())


clients = pytest.mark.parametrize("client", [sync_client, aio_client], ids=["sync", "aio"])


def image(rows: NDArray[Any] = IMAGES, *, binary: bool = True) -> sync_triton.InferInput:
    kinds = {"uint8": "UINT8", "float32": "FP32", "int8": "INT8"}
    tensor = sync_triton.InferInput("image", list(rows.shape), kinds[rows.dtype.name])
    return tensor.set_data_from_numpy(rows, binary_data=binary)


@clients
def test_health_and_metadata(running: Running, client: Client) -> None:
    assert client(running, "is_server_live")
    assert client(running, "is_server_ready")
    assert client(running, "is_model_ready", MODEL)
    assert client(running, "is_model_ready", OTHER, "2.0.0")
    assert not client(running, "is_model_ready", "none")
    assert not client(running, "is_model_ready", MODEL, "9.9.9")
    metadata = client(running, "get_server_metadata")
    assert metadata["name"] == "hybridge-cloud"
    assert {"binary_tensor_data", "model_repository", "statistics"} <= set(metadata["extensions"])
    model = client(running, "get_model_metadata", MODEL)
    assert (model["name"], model["versions"], model["platform"]) == (
        MODEL, ["1.0.0"], "onnxruntime",
    )  # fmt: skip
    assert model["inputs"] == [{"name": "image", "datatype": "UINT8", "shape": [-1, 4, 4]}]
    assert tuple(output["name"] for output in model["outputs"]) == OUTPUTS
    assert client(running, "get_model_metadata", OTHER, "2.0.0")["versions"] == ["2.0.0"]


@clients
def test_the_configuration_is_tritons(running: Running, client: Client) -> None:
    config = client(running, "get_model_config", MODEL)
    assert (config["name"], config["max_batch_size"]) == (MODEL, 8)
    assert config["input"] == [{"name": "image", "data_type": "TYPE_UINT8", "dims": [4, 4]}]
    assert config["output"][0] == {"name": "logits", "data_type": "TYPE_FP32", "dims": [3]}
    assert config["output"][2] == {
        "name": "label", "data_type": "TYPE_STRING", "dims": [1], "reshape": {"shape": []},
    }  # fmt: skip
    assert config["dynamic_batching"]["priority_levels"] == 3


@clients
@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
@pytest.mark.parametrize("binary", [True, False])
def test_inference(running: Running, client: Client, binary: bool, compression: str | None) -> None:
    result = client(
        running, "infer", MODEL, [image(binary=binary)], request_id="r1",
        request_compression_algorithm=compression, response_compression_algorithm=compression,
    )  # fmt: skip
    assert np.array_equal(result.as_numpy("index"), [1, 2, 0])
    assert result.as_numpy("label").tolist() == [b"class-1", b"class-2", b"class-0"]
    assert np.allclose(result.as_numpy("logits"), tiny_logits(IMAGES, shift=1), atol=1e-4)
    assert np.allclose(result.as_numpy("probabilities").sum(axis=1), 1)
    assert (result.as_numpy("confidence") > 0.9).all()
    assert result.as_numpy("source").tolist() == [b"cloud"] * 3
    response = result.get_response()
    assert (response["id"], response["model_name"], response["model_version"]) == (
        "r1", MODEL, "1.0.0",
    )  # fmt: skip
    assert response["parameters"] == {"source": "cloud"}


@clients
@pytest.mark.parametrize("compression", ["gzip", "deflate"])
def test_a_long_answer_is_compressed(running: Running, client: Client, compression: str) -> None:
    rows = np.repeat(IMAGES, 80, axis=0)
    outputs = [sync_triton.InferRequestedOutput(name, binary_data=False) for name in OUTPUTS]
    result = client(
        running, "infer", MODEL, [image(rows)], outputs=outputs,
        request_compression_algorithm=compression, response_compression_algorithm=compression,
    )  # fmt: skip
    assert np.array_equal(result.as_numpy("index"), np.repeat([1, 2, 0], 80))


@clients
@pytest.mark.parametrize("binary", [True, False])
def test_outputs_by_name(running: Running, client: Client, binary: bool) -> None:
    outputs = [
        sync_triton.InferRequestedOutput("index", binary_data=binary),
        sync_triton.InferRequestedOutput("logits", binary_data=True),
    ]
    result = client(running, "infer", OTHER, [image()], model_version="2.0.0", outputs=outputs)
    assert [output["name"] for output in result.get_response()["outputs"]] == ["index", "logits"]
    assert np.array_equal(result.as_numpy("index"), [0, 1, 2])
    assert result.as_numpy("label") is None


@clients
def test_priority_timeout_and_tier(running: Running, client: Client) -> None:
    for priority in (0, 1, 2, 3):
        result = client(
            running, "infer", MODEL, [image()], priority=priority, timeout=10_000_000,
            parameters={"tier": "fast"},
        )  # fmt: skip
        names = [output["name"] for output in result.get_response()["outputs"]]
        assert names == ["label", "confidence", "source"]


def refused(running: Running, client: Client, *args: Any, **kwargs: Any) -> tuple[str, str]:
    with pytest.raises(InferenceServerException) as refusal:
        client(running, *args, **kwargs)
    return refusal.value.status(), refusal.value.message()


@clients
def test_refusals_say_what_is_wrong(running: Running, client: Client) -> None:
    ask = (running, client, "infer")
    rows = image()
    assert refused(*ask, "none", [rows])[0] == "404"
    assert "tiny-cloud" in refused(*ask, "none", [rows])[1]
    assert refused(*ask, MODEL, [rows], model_version="7.0.0")[0] == "404"
    mood = [sync_triton.InferRequestedOutput("mood")]
    assert refused(*ask, MODEL, [rows], outputs=mood)[0] == "404"
    status, message = refused(*ask, MODEL, [image(IMAGES.astype(np.float32))])
    assert (status, "send UINT8[N,4,4]" in message) == ("400", True)
    assert refused(*ask, MODEL, [image(IMAGES[:, :3])])[0] == "400"
    assert refused(*ask, MODEL, [image(np.zeros((257, 4, 4), np.uint8))])[0] == "413"
    assert refused(*ask, MODEL, [rows], priority=4)[0] == "400"
    assert refused(*ask, MODEL, [rows], timeout=1)[0] == "504"
    picture = sync_triton.InferInput("picture", [1, 4, 4], "UINT8")
    picture.set_data_from_numpy(IMAGES[:1])
    assert refused(*ask, MODEL, [picture])[0] == "404"
    assert refused(*ask, MODEL, [rows], parameters={"tier": "asynchronous"})[0] == "404"
    assert refused(running, client, "get_model_metadata", "none")[0] == "404"
    assert refused(running, client, "get_model_config", MODEL, "0.0.9")[0] == "404"


@lanes
@clients
def test_statistics_count_what_was_answered(folder: Path, lane: str, client: Client) -> None:
    with server(folder, lane) as running:
        for _ in range(3):
            client(running, "infer", MODEL, [image()])
        refused(running, client, "infer", MODEL, [image()], priority=9)
        (told,) = client(running, "get_inference_statistics", MODEL)["model_stats"]
        everything = client(running, "get_inference_statistics")["model_stats"]
    assert (told["name"], told["version"], told["inference_count"]) == (MODEL, "1.0.0", 9)
    assert told["execution_count"] == 3
    stats = told["inference_stats"]
    assert (stats["success"]["count"], stats["fail"]["count"]) == (3, 1)
    assert stats["queue"]["count"] == stats["compute_infer"]["count"] == 3
    assert 0 < stats["compute_infer"]["ns"] < stats["success"]["ns"]
    assert {model["name"]: model["inference_count"] for model in everything} == {MODEL: 9, OTHER: 0}


@lanes
@clients
def test_models_are_loaded_and_unloaded_by_name(folder: Path, lane: str, client: Client) -> None:
    def states(running: Running) -> dict[str, str]:
        index = client(running, "get_model_repository_index")
        return {f"{entry['name']} {entry['version']}": entry["state"] for entry in index}

    with server(folder, lane) as running:
        assert states(running) == {
            "tiny-cloud 1.0.0": "READY", "tiny-other 2.0.0": "READY",
            "tiny-spare 1.0.0": "UNAVAILABLE",
        }  # fmt: skip
        client(running, "load_model", SPARE)
        assert client(running, "is_model_ready", SPARE)
        index = client(running, "infer", SPARE, [image()]).as_numpy("index")
        assert np.array_equal(index, [2, 0, 1])
        client(running, "unload_model", SPARE)
        assert states(running)["tiny-spare 1.0.0"] == "UNAVAILABLE"
        assert refused(running, client, "infer", SPARE, [image()])[0] == "503"
        assert not client(running, "is_model_ready", SPARE)
        assert refused(running, client, "load_model", "none")[0] == "404"
        assert refused(running, client, "unload_model", "none")[0] == "404"
        assert refused(running, client, "load_model", SPARE, config="{}")[0] == "400"
        assert (
            refused(running, client, "load_model", SPARE, files={"file:1/model.onnx": b"x"})[0]
            == "400"
        )
