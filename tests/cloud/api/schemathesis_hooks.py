"""Hooks of the schemathesis run that reaches the models: what it makes up, around a real tensor.

Loaded by schemathesis itself (`SCHEMATHESIS_HOOKS`), in its own process.
"""

from typing import Any

import schemathesis

IMAGE = {"name": "image", "datatype": "UINT8", "shape": [1, 4, 4], "data": list(range(16))}


@schemathesis.hook
def map_body(_: schemathesis.HookContext, body: Any) -> Any:
    if isinstance(body, dict) and isinstance(body.get("inputs"), list):
        body["inputs"] = [IMAGE]
        body.pop("outputs", None)
    return body


@schemathesis.hook
def map_headers(_: schemathesis.HookContext, headers: Any) -> Any:
    """A count of JSON bytes and an encoding cannot be right by chance."""
    return {
        name: value
        for name, value in (headers or {}).items()
        if name not in ("Inference-Header-Content-Length", "Content-Encoding")
    }
