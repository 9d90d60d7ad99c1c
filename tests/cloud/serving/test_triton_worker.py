"""A worker started with `--engine triton --url`: another worker runs its model. Real processes."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from tests.cloud.workers import Worker, cloud_bundle, worker
from tests.tiny_bundle import sure_image, tiny_logits

IMAGES = np.stack([sure_image(n) for n in range(3)])
MODEL = "tiny-cloud"


def infer(api: str) -> np.ndarray:
    client = triton.InferenceServerClient(api.removeprefix("http://"))
    try:
        image = triton.InferInput("image", list(IMAGES.shape), "UINT8")
        image.set_data_from_numpy(IMAGES)
        return client.infer(MODEL, [image]).as_numpy("logits")
    finally:
        client.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def in_front_of(folder: Path, behind: Worker) -> Iterator[Worker]:
    folder.mkdir()
    bundle = str(cloud_bundle(folder))
    arguments = ("--bundle", bundle, "--engine", "triton", "--url", behind.api)
    with worker(folder, *arguments) as one:
        yield one.ready()


def test_it_answers_by_the_server_behind_it_which_may_die_and_come_back(tmp_path: Path) -> None:
    back, port = tmp_path / "back", ("--api-port", str(free_port()))
    back.mkdir()
    with worker(back, *port) as first, in_front_of(tmp_path / "front", first.ready()) as front:
        assert np.allclose(infer(front.api), tiny_logits(IMAGES, shift=1), atol=1e-5)
        status, text = front.get("/v1/status")
        assert (status, "triton/fp32" in text) == (200, True)
        first.kill()
        with pytest.raises(InferenceServerException, match="is Triton up"):
            infer(front.api)
        assert front.get("/v2/health/ready")[0] == 200  # cache and rules may still answer
        with worker(back, *port) as second:
            second.ready()
            assert np.allclose(infer(front.api), tiny_logits(IMAGES, shift=1), atol=1e-5)
            assert front.terminate() == 0


def test_a_server_that_is_not_there_ends_the_start_with_one_line(tmp_path: Path) -> None:
    bundle = str(cloud_bundle(tmp_path))
    url = f"http://127.0.0.1:{free_port()}"
    with worker(tmp_path, "--bundle", bundle, "--engine", "triton", "--url", url) as one:
        assert one.exit_code() == 1
        (line,) = [each for each in one.log.read_text().splitlines() if "not_started" in each]
        assert f"{url}: " in line
        assert "is Triton up?" in line


def test_an_engine_without_its_server_is_a_mistake_in_the_settings(tmp_path: Path) -> None:
    bundle = str(cloud_bundle(tmp_path))
    with worker(tmp_path, "--bundle", bundle, "--engine", "triton") as one:
        assert one.exit_code() == 2
        assert "belong together" in one.log.read_text()
