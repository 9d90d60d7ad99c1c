"""Escalations, and what comes back for them: msgpack maps with short keys (FINDINGS 4).

Times are durations, never dates: a device's clock may be wrong, so a deadline travels as the
milliseconds that are left when the message leaves. Unknown keys are ignored: an old device meets
a new cloud. Whatever does not fit raises `Malformed`, whatever is too big `TooLarge`.
"""

from dataclasses import dataclass
from typing import Literal, TypeVar, assert_never, cast, get_args
from uuid import UUID

import msgpack
import numpy as np
from numpy.typing import NDArray

from shared.errors import Malformed, TooLarge
from shared.ids import SampleId

T = TypeVar("T")
VERSION = 1
MESSAGE_BYTES_MAX = 128 * 1024  # the smallest limit among public MQTT clouds
_RANK_MAX = 8
_NAME_MAX = 64  # as in a bundle's manifest

Reason = Literal["escalated", "audit", "novel"]
"""The edge was unsure; it was sure, and is checked; its input is unlike the model's reference."""
_REASONS = get_args(Reason)
RefusalCode = Literal[
    "malformed", "unknown_model", "unknown_dictionary", "too_late", "overloaded", "draining"
]


@dataclass(frozen=True, slots=True)
class Payload:
    """One raw tensor on its way: `data` decodes to `shape` of `dtype` (see `pixels.py`)."""

    codec: str  # "raw", "zstd", "grey4"
    dtype: str  # numpy name: "uint8"
    shape: tuple[int, ...]  # without the batch axis
    data: bytes
    dictionary: str = ""  # first 16 hex digits of its sha256; "" when none is used


@dataclass(frozen=True, slots=True)
class Escalation:
    """A sample that the edge was unsure of or that it knows nothing like, or a random audit."""

    id: SampleId
    model: str  # the edge model's name; the cloud maps it to its own
    model_version: str
    reason: Reason
    budget_ms: int  # what is left until its deadline, when it was sent
    captured_at: float  # Unix seconds by the device's clock; for people, never for deadlines
    edge_label: int
    edge_confidence: float
    payload: Payload
    traceparent: str = ""  # W3C Trace Context
    share: float = 1.0  # in (0, 1]: the probability with which a sample like it is sent


@dataclass(frozen=True, slots=True)
class CloudAnswer:
    id: SampleId
    model: str
    model_version: str
    probabilities: NDArray[np.float32]  # [classes], calibrated, sums to 1
    queue_ms: float
    run_ms: float


@dataclass(frozen=True, slots=True)
class Refusal:
    """No answer. With `retry_after_ms` the same sample may be sent again; without, never."""

    id: SampleId
    code: RefusalCode
    message: str
    retry_after_ms: int | None


Downlink = CloudAnswer | Refusal


def pack_escalation(e: Escalation) -> bytes:
    p = e.payload
    body = {
        "v": VERSION, "id": e.id.bytes, "m": e.model, "mv": e.model_version, "why": e.reason,
        "left": e.budget_ms, "ts": e.captured_at, "el": e.edge_label, "ec": e.edge_confidence,
        "c": p.codec, "t": p.dtype, "s": p.shape, "d": p.data,
    }  # fmt: skip
    if p.dictionary:
        body["dict"] = p.dictionary
    if e.traceparent:
        body["tp"] = e.traceparent
    if e.share != 1:
        body["sh"] = e.share
    return _pack(body)


def unpack_escalation(message: bytes, bytes_max: int = MESSAGE_BYTES_MAX) -> Escalation:
    body = _unpack(message, bytes_max)
    reason = _field(body, "why", str)
    if reason not in _REASONS:
        raise Malformed(f"escalation: why is {reason[:40]!r}; it must be one of {_REASONS}")
    shape = _field(body, "s", list)
    if len(shape) > _RANK_MAX or not all(type(n) is int and 0 < n < 2**31 for n in shape):
        raise Malformed(f"escalation: shape s is {str(shape)[:80]}; at most {_RANK_MAX} sizes > 0")
    confidence = _field(body, "ec", float)
    if not 0 <= confidence <= 1:
        raise Malformed(f"escalation: ec is {confidence}; a confidence lies in 0..1")
    left = _field(body, "left", int)
    if left < 0:
        raise Malformed(f"escalation: left is {left} ms; it must not be negative")
    share = _field(body, "sh", float, 1.0)
    if not 0 < share <= 1:
        raise Malformed(f"escalation: sh is {share}; a sample that was sent had a share in (0, 1]")
    return Escalation(
        id=_id(body), model=_field(body, "m", str), model_version=_field(body, "mv", str),
        reason=cast("Reason", reason), budget_ms=left, captured_at=_field(body, "ts", float),
        edge_label=_field(body, "el", int), edge_confidence=confidence,
        payload=Payload(
            codec=_field(body, "c", str), dtype=_field(body, "t", str), shape=tuple(shape),
            data=_field(body, "d", bytes), dictionary=_field(body, "dict", str, ""),
        ),
        traceparent=_field(body, "tp", str, ""), share=share,
    )  # fmt: skip


def pack_downlink(d: Downlink) -> bytes:
    match d:
        case CloudAnswer():
            return _pack({
                "v": VERSION, "k": "answer", "id": d.id.bytes, "m": d.model, "mv": d.model_version,
                "p": d.probabilities.astype("<f4").tobytes(), "q": d.queue_ms, "r": d.run_ms,
            })  # fmt: skip
        case Refusal():
            return _pack({
                "v": VERSION, "k": "refusal", "id": d.id.bytes, "code": d.code,
                "why": d.message[:500], "again": d.retry_after_ms,
            })  # fmt: skip
        case _:
            assert_never(d)


def unpack_downlink(message: bytes) -> Downlink:
    body = _unpack(message)
    match body.get("k"):
        case "answer":
            packed = _field(body, "p", bytes)
            if not packed or len(packed) % 4:
                raise Malformed(f"answer: p holds {len(packed)} bytes, not whole float32 values")
            probabilities = np.frombuffer(packed, "<f4").astype(np.float32)
            if not ((probabilities >= 0).all() and abs(float(probabilities.sum()) - 1) <= 1e-3):
                raise Malformed("answer: p is no distribution (all >= 0, and 1 in sum)")
            return CloudAnswer(
                id=_id(body), model=_name(body, "m"), model_version=_name(body, "mv"),
                probabilities=probabilities, queue_ms=_field(body, "q", float),
                run_ms=_field(body, "r", float),
            )  # fmt: skip
        case "refusal":
            again = body.get("again")
            if again is not None and (type(again) is not int or again < 0):
                raise Malformed(f"refusal: again is {str(again)[:40]}; milliseconds or nothing")
            return Refusal(
                id=_id(body), code=_field(body, "code", str),  # type: ignore[arg-type]  # newer codes pass
                message=_field(body, "why", str), retry_after_ms=again,
            )  # fmt: skip
        case other:
            raise Malformed(f"downlink: k is {str(other)[:40]!r}; expected 'answer' or 'refusal'")


def _pack(body: dict[str, object]) -> bytes:
    packed: bytes = msgpack.packb(body)
    return packed


def _unpack(message: bytes, bytes_max: int = MESSAGE_BYTES_MAX) -> dict[str, object]:
    if len(message) > bytes_max:
        raise TooLarge(f"message of {len(message)} bytes; at most {bytes_max} travel here")
    try:
        body = msgpack.unpackb(message)
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise Malformed(f"not a msgpack message: {error}") from error
    if not isinstance(body, dict):
        raise Malformed(f"the message is a {type(body).__name__}, not a map")
    version = body.get("v")
    if version != VERSION:
        raise Malformed(f"v is {str(version)[:40]}; this program reads version {VERSION}")
    return body


def _id(body: dict[str, object]) -> SampleId:
    raw = _field(body, "id", bytes)
    if len(raw) != 16:
        raise Malformed(f"id holds {len(raw)} bytes; a UUID has 16")
    return SampleId(UUID(bytes=raw))


def _name(body: dict[str, object], key: str) -> str:
    """A device keeps each answer's names on disk: what comes from outside must not fill it."""
    text = _field(body, key, str)
    if len(text) > _NAME_MAX or not text.isprintable():
        raise Malformed(f"{key} must be at most {_NAME_MAX} printable characters")
    return text


def _field(body: dict[str, object], key: str, kind: type[T], default: T | None = None) -> T:
    value = body.get(key, default)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise Malformed(f"{key} is {type(value).__name__}; expected {kind.__name__}")
    return value
