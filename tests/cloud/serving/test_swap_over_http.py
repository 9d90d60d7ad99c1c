"""Versions swapped by the repository API under load, over both lanes: every call is answered."""

import http.client
import json
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from shared.oip.body import HEADER_LENGTH
from shared.oip.request import InferRequest, encode_request
from shared.oip.response import decode_response
from shared.oip.tensors import Tensor
from tests.cloud.api.servers import DEADLINE_S, INFER, MODEL, Running, bundles, lanes, server
from tests.tiny_bundle import sure_image, write_tiny_bundle

CLIENTS = 8
SWAPS = 20
SHIFT = {"1.0.0": 1, "2.0.0": 2, "3.0.0": 0}


@lanes
def test_twenty_swaps_fail_no_call_and_leave_no_version_behind(
    tmp_path: Path, lane: str, caplog: pytest.LogCaptureFixture
) -> None:
    *_, spares = bundles(tmp_path)
    for version in ("2.0.0", "3.0.0"):
        write_tiny_bundle(
            spares / version, name=MODEL, version=version, escalates=False, shift=SHIFT[version]
        )
    with server(tmp_path, lane) as there:
        clients = [Client(there, number) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        for swap in range(SWAPS):
            version = list(SHIFT)[(swap + 1) % 3]
            seen = sum(client.answered[version] for client in clients)
            loaded = there.call(
                "POST",
                f"/v2/repository/models/{MODEL}/load",
                json.dumps({"parameters": {"version": version}}),
            )
            assert (loaded.status, loaded.json["version"]) == (200, version), loaded.body
            within(lambda v=version, s=seen: answers(clients, v) >= s + CLIENTS)
        for client in clients:
            client.stop()
        assert [client.failures for client in clients] == [[]] * CLIENTS
        within(lambda: not there.pool._loads.retiring.memory_bytes)
        assert "retired_version_is_held" not in caplog.text


def answers(clients: list["Client"], version: str) -> int:
    return sum(client.answered[version] for client in clients)


def within(true) -> None:
    """Another thread makes it true in time."""
    end = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


class Client(threading.Thread):
    """Calls over one connection until it is stopped, and checks each answer by its version."""

    def __init__(self, there: Running, number: int) -> None:
        super().__init__()
        self._there, self._want = there, number % 3
        self._stopping = threading.Event()
        self.answered: Counter[str] = Counter()
        self.failures: list[object] = []

    def run(self) -> None:
        asked = InferRequest(
            (Tensor("image", sure_image(self._want)[None]),), binary_data_output=True
        )
        encoded = encode_request(asked)
        connection = http.client.HTTPConnection(
            self._there.host, self._there.port, timeout=DEADLINE_S
        )
        while not self._stopping.is_set():
            try:
                connection.request("POST", INFER, encoded.body, encoded.headers)
                answer = connection.getresponse()
                body = answer.read()
                if answer.status != 200:
                    self.failures.append((answer.status, body))
                    continue
                told = decode_response(body, answer.headers[HEADER_LENGTH])
                logits = told.outputs[0].array
                if int(np.argmax(logits)) != (self._want + SHIFT[told.model_version]) % 3:
                    self.failures.append((told.model_version, logits))
                self.answered[told.model_version] += 1
            except OSError as error:
                self.failures.append(error)
                return
        connection.close()

    def stop(self) -> None:
        self._stopping.set()
        self.join(DEADLINE_S)
