"""An inference call without its transport: from a body to rows and what is asked about them. Pure.

What the JSON header says (`Asked`) stands apart from the rows: clients send the same header over and
over, so whoever answers many calls may keep `Asked` by the header's bytes where its rows are binary,
and take only the rows anew (`rows_of`). `cloud/api/answer.py` writes the answer.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from cloud.api.settings import CallLimits
from cloud.serving.job import Priority, Rows
from shared.errors import Malformed, TooLarge
from shared.oip.documents import Parameter, kind_of
from shared.oip.request import InferRequest, decode_request
from shared.oip.signature import Signature, inputs_for

FAST_OUTPUTS = ("label", "confidence", "source")
_PARTS_MAX = 100_000  # of a JSON: each takes a microsecond to make, and the interpreter's lock
WEBHOOK_CHARACTERS_MAX = 2048
JSON_INLINE_BYTES_MAX = 8 * 1024
"""Of JSON that may be read on the event loop: half a ms, whatever is in it."""
_US = 1e-6  # the unit of `timeout`, as in Triton's schedule policy extension


class Tier(StrEnum):
    """How long an answer may take, and so how much of one there is."""

    FAST = "fast"
    FULL = "full"
    ASYNCHRONOUS = "asynchronous"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call's JSON header says; the same bytes say the same to the same signature."""

    shape: tuple[int, ...]  # of the rows, [n, *sample]
    dtype: np.dtype[Any]
    binary: bool  # the rows are behind the header, none of them in it
    wanted: tuple[tuple[str, bool], ...]  # names of outputs, each with: as binary data?
    id: str
    tier: Tier
    timeout_s: float | None  # as the caller gave it
    within_s: float  # the deadline of who waits: `timeout_s` within its bound, or the tier's own
    priority: Priority
    webhook: str | None  # unchecked but for its length; only with the tier `asynchronous`
    parameters: Mapping[str, Parameter]  # all of the request's, for whoever knows more of them

    @property
    def all_binary(self) -> bool:
        return all(binary for _, binary in self.wanted)


@dataclass(frozen=True, slots=True, eq=False)
class InferCall:
    """`rows` is a read-only view into the body where they came as binary data."""

    rows: Rows
    asked: Asked


def read_call(
    body: bytes | bytearray | memoryview,
    header_length: str | None,
    signature: Signature,
    limits: CallLimits,
) -> InferCall:
    """`header_length` is the text of `Inference-Header-Content-Length`, None where it is absent.

    The caller bounds the body. Raises `Malformed`, `TooLarge` or `Unknown`, nothing else. Call it in
    a thread for more than `JSON_INLINE_BYTES_MAX` of JSON.
    """
    if len(signature.inputs) != 1:
        raise Malformed(f"{signature.name} takes {len(signature.inputs)} inputs; only one is read")
    _bound_json(body, header_length, limits)
    request = decode_request(body, header_length)
    (tensor,) = inputs_for(signature, request, limits.rows_max)
    rows, extra = tensor.array, request.parameters
    tier = _tier(extra)
    timeout_s = _timeout_s(extra)
    asked = Asked(
        shape=rows.shape, dtype=rows.dtype,
        binary=not rows.flags.writeable,  # a view into the body; JSON data makes an array of its own
        wanted=_wanted(request, signature, tier),
        id=request.id, tier=tier, timeout_s=timeout_s, within_s=_within_s(tier, timeout_s, limits),
        priority=_priority(extra), webhook=_webhook(extra, tier), parameters=extra,
    )  # fmt: skip
    return InferCall(rows, asked)


def json_bytes(body_bytes: int, header_length: str | None) -> int:
    """How much of a body is JSON: all of it where `header_length` is None or nonsense."""
    if header_length is not None and header_length.isascii() and header_length.isdigit():
        return min(body_bytes, int(header_length[:12]))
    return body_bytes


def rows_of(asked: Asked, content: bytes | bytearray | memoryview) -> Rows:
    """The rows of another call with the same header, whose binary section is `content`: a view.

    Raises `Malformed` exactly where `read_call` would.
    """
    expected = math.prod(asked.shape) * asked.dtype.itemsize
    if len(content) != expected:
        raise Malformed(
            f"{len(content)} bytes follow the JSON header, which says {expected}; check "
            "binary_data_size and Inference-Header-Content-Length"
        )
    rows = np.frombuffer(content, asked.dtype).reshape(asked.shape)
    if asked.dtype.kind == "f" and not np.isfinite(rows).all():
        raise Malformed("the input holds NaN or an infinity; send finite numbers")
    return rows


def _bound_json(
    body: bytes | bytearray | memoryview, header_length: str | None, limits: CallLimits
) -> None:
    found = json_bytes(len(body), header_length)
    if found > limits.json_bytes_max:
        raise TooLarge(
            f"the body's JSON is {found} bytes; at most {limits.json_bytes_max} are read: "
            "send tensors as binary data, or fewer rows"
        )
    if found > _PARTS_MAX:  # below that there cannot be more
        text = bytes(body[:found])
        if text.count(b"[") + text.count(b"{") + text.count(b":") > _PARTS_MAX:
            raise TooLarge(
                f"the body's JSON has over {_PARTS_MAX} arrays, objects and members; send tensors as "
                "binary data, or as flat arrays"
            )


def _wanted(
    request: InferRequest, signature: Signature, tier: Tier
) -> tuple[tuple[str, bool], ...]:
    offered = signature.output_names
    if tier is Tier.FAST and not request.outputs:
        offered = tuple(name for name in offered if name in FAST_OUTPUTS) or offered
    return request.wanted(offered)


def _tier(parameters: Mapping[str, Parameter]) -> Tier:
    value = parameters.get("tier", Tier.FULL)
    if isinstance(value, str) and value in set(Tier):
        return Tier(value)
    raise Malformed(f"parameters.tier is {str(value)[:40]!r}; send one of {', '.join(Tier)}")


def _timeout_s(parameters: Mapping[str, Parameter]) -> float | None:
    """0 stands for none, as in Triton."""
    value = parameters.get("timeout", 0)
    if type(value) is not int or not 0 <= value < 2**63:
        found = value if type(value) is int else kind_of(value)
        raise Malformed(f"parameters.timeout is {str(found)[:40]}; send microseconds >= 0")
    return value * _US if value else None


def _within_s(tier: Tier, timeout_s: float | None, limits: CallLimits) -> float:
    match tier:
        case Tier.FAST:
            default_s = limits.fast_s
        case Tier.FULL:
            default_s = limits.full_s
        case (
            Tier.ASYNCHRONOUS
        ):  # nobody waits: `timeout_s` goes with the job, within `jobs.expiry_s`
            return math.inf
    return default_s if timeout_s is None else min(timeout_s, limits.timeout_s_max)


def _priority(parameters: Mapping[str, Parameter]) -> Priority:
    """0 is the default, as in Triton."""
    value = parameters.get("priority", 0)
    if type(value) is not int or not 0 <= value <= max(Priority):
        found = value if type(value) is int else kind_of(value)
        raise Malformed(
            f"parameters.priority is {str(found)[:40]}; send 0 or 1 (interactive), 2 (near-line) "
            "or 3 (bulk)"
        )
    return Priority(value or Priority.INTERACTIVE)


def _webhook(parameters: Mapping[str, Parameter], tier: Tier) -> str | None:
    value = parameters.get("webhook")
    if value is None:
        return None
    if tier is not Tier.ASYNCHRONOUS:
        raise Malformed(f"parameters.webhook goes with tier 'asynchronous'; the tier is {tier}")
    if not isinstance(value, str) or not 0 < len(value) <= WEBHOOK_CHARACTERS_MAX:
        raise Malformed(
            f"parameters.webhook must be a URL of 1 to {WEBHOOK_CHARACTERS_MAX} characters"
        )
    return value
