"""One sample as each server wants it, and how its answer is read. Pure.

Binary where the server's protocol takes a tensor so; base64 or numbers in JSON where it does not.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

Form = Literal["raw", "v2-binary", "v2-json", "base64", "base64-list"]
Floats = NDArray[np.float32]
V2_PATH = "/v2/models/{model}/infer"
HEADER_LENGTH = "Inference-Header-Content-Length"
_OCTETS = "application/octet-stream"
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """One POST."""

    path: str
    body: bytes
    headers: Mapping[str, str]

    def head(self, host: str) -> bytes:
        """The HTTP/1.1 request head, for a client that writes its own."""
        lines = [f"POST {self.path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(self.body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode()


def request(form: Form, path: str, x: Floats) -> Request:
    """Give the request for the sample `x`, float32 [1, 1, 28, 28]."""
    match form:
        case "raw":
            return Request(path, x.tobytes(), {"Content-Type": _OCTETS})
        case "v2-binary":
            return v2_binary(path, "x", x, "y")
        case "v2-json":
            data = [round(float(value), 6) for value in x.ravel()]
            tensor = {"name": "x", "shape": list(x.shape), "datatype": "FP32", "data": data}
            asked = {"inputs": [tensor], "outputs": [{"name": "y"}]}
            return Request(path, json.dumps(asked).encode(), {"Content-Type": _JSON})
        case "base64":
            text = base64.b64encode(x.tobytes()).decode()
            return Request(path, json.dumps({"x": text}).encode(), {"Content-Type": _JSON})
        case "base64-list":
            text = base64.b64encode(x.tobytes()).decode()
            return Request(path, json.dumps({"x": [text]}).encode(), {"Content-Type": _JSON})
        case _:
            assert_never(form)


def v2_binary(
    path: str, name: str, x: NDArray[np.generic], output: str,
    parameters: Mapping[str, int] | None = None,
) -> Request:  # fmt: skip
    """Ask for one output as binary, `x` behind the JSON header, as `tritonclient.http` does.

    Source: Open Inference Protocol, binary tensor data extension.
    """
    asked: dict[str, object] = {
        "inputs": [{
            "name": name, "shape": list(x.shape), "datatype": _DATATYPES[x.dtype.name],
            "parameters": {"binary_data_size": x.nbytes},
        }],
        "outputs": [{"name": output, "parameters": {"binary_data": True}}],
    }  # fmt: skip
    if parameters:
        asked["parameters"] = dict(parameters)
    head = json.dumps(asked, separators=(",", ":")).encode()
    return Request(
        path, head + x.tobytes(), {"Content-Type": _OCTETS, HEADER_LENGTH: str(len(head))}
    )


def answer(headers: Mapping[str, str], body: bytes) -> Floats:
    """Read float32 [10] from any of these servers' answers; names in `headers` in lower case.

    Raises:
        ValueError: it is none of theirs.

    """
    if HEADER_LENGTH.lower() in headers:
        body = body[int(headers[HEADER_LENGTH.lower()]) :]
    elif headers.get("content-type", "").startswith(_JSON):
        said = json.loads(body)
        values = said["outputs"][0]["data"] if isinstance(said, dict) else said[0]
        return np.asarray(values, np.float32)
    if len(body) != 40:
        raise ValueError(f"{len(body)} bytes: {body[:80]!r}")
    return np.frombuffer(body, "<f4").astype(np.float32)


_DATATYPES = {"float32": "FP32", "uint8": "UINT8"}
