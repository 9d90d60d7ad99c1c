"""Turn one MQTT delivery into one escalation. Pure, so every bad payload is a one-line test."""

import math
from dataclasses import dataclass
from uuid import UUID

import msgpack

from shared.errors import Malformed, Refused
from shared.ids import DeviceId, SampleId
from shared.topics import device_of_escalation
from shared.wire.envelope import MESSAGE_BYTES_MAX, Escalation, unpack_escalation

_LABEL_MAX = 2**31 - 1  # what an INTEGER column holds in every database
_TEXT_MAX = 64
_DICTIONARY_MAX = 16  # see `shared.wire.pixels.dictionary_id`


@dataclass(frozen=True, slots=True)
class Received:
    device: DeviceId  # from the topic, which the broker's ACL vouches for; never the payload
    escalation: Escalation


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A delivery that is no escalation; with a device and an id it can still be refused."""

    kind: str  # "topic" or "envelope": what the log names once
    why: str
    device: DeviceId | None = None
    id: SampleId | None = None


def decode(topic: str, payload: bytes) -> Received | Unreadable:
    try:
        device = device_of_escalation(topic)
    except Malformed as error:
        return Unreadable("topic", str(error))
    try:
        escalation = unpack_escalation(payload)
        _check_storable(escalation)
    except Refused as error:
        return Unreadable("envelope", str(error), device, _id_of(payload))
    return Received(device, escalation)


def _check_storable(e: Escalation) -> None:
    """What the wire lets pass and a database would choke on, taking its batch mates down."""
    if not math.isfinite(e.captured_at):
        raise Malformed(f"escalation: ts is {e.captured_at}; it must be a finite number of seconds")
    if not 0 <= e.edge_label <= _LABEL_MAX:
        raise Malformed(f"escalation: el is {e.edge_label}; a label lies in 0..{_LABEL_MAX}")
    dictionary = e.payload.dictionary
    if len(dictionary) > _DICTIONARY_MAX or not dictionary.isascii():
        raise Malformed(f"escalation: dict must be at most {_DICTIONARY_MAX} hex digits")
    for key, text in (("m", e.model), ("mv", e.model_version)):
        if not 0 < len(text) <= _TEXT_MAX or not text.isprintable():
            raise Malformed(f"escalation: {key} must be 1 to {_TEXT_MAX} printable characters")


def _id_of(payload: bytes) -> SampleId | None:
    """The sample id of a map that is wrong elsewhere, so that its device hears of it."""
    if len(payload) > MESSAGE_BYTES_MAX:
        return None
    try:
        body = msgpack.unpackb(payload)
    except (ValueError, msgpack.UnpackException):
        return None
    raw = body.get("id") if isinstance(body, dict) else None
    if not isinstance(raw, bytes) or len(raw) != 16:  # UUID only asserts that these are bytes
        return None
    return SampleId(UUID(bytes=raw))
