"""What a webhook's receiver is told: the same bytes in each attempt. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime

from cloud.jobs.record import Delivery
from shared.errors import Malformed
from shared.oip.body import Encoded
from shared.oip.documents import Document, dump
from shared.oip.response import decode_response, encode_response


@dataclass(frozen=True, slots=True)
class Message:
    """`complete`: whatever came of the job is in it."""

    body: bytes
    complete: bool


def message_id(delivery: Delivery) -> str:
    return f"msg_{delivery.id}"


def message(delivery: Delivery, bytes_max: int) -> Message:
    """JSON `{type, timestamp, data}`; `data.answer` is the protocol's response, all of it JSON.

    An answer that JSON cannot carry, or that makes this longer than `bytes_max`, is left out and
    `data.answer_left_out` says why.
    """
    data: Document = {
        "id": str(delivery.id),
        "status": delivery.state,
        "model": delivery.model,
        "location": f"/v1/results/{delivery.id}",
    }
    if delivery.failure is not None:
        data["error"] = {"reason": delivery.failure.reason, "detail": delivery.failure.detail}
    if delivery.answer is None:
        return Message(_body(delivery, dump(data)), complete=True)
    try:
        answer = _as_json(delivery.answer)
    except Malformed as error:
        data["answer_left_out"] = f"{error}; fetch it at `location`"
        return Message(_body(delivery, dump(data)), complete=False)
    whole = _body(delivery, dump(data)[:-1] + b',"answer":' + answer + b"}")
    if len(whole) <= bytes_max:
        return Message(whole, complete=True)
    data["answer_left_out"] = f"a message of {len(whole)} bytes; fetch it at `location`"
    return Message(_body(delivery, dump(data)), complete=False)


def _body(delivery: Delivery, data: bytes) -> bytes:
    ended = datetime.fromtimestamp(delivery.ended_at, UTC).isoformat(timespec="milliseconds")
    head = dump({"type": f"job.{delivery.state}", "timestamp": ended.replace("+00:00", "Z")})
    return head[:-1] + b',"data":' + data + b"}"


def _as_json(answer: Encoded) -> bytes:
    if answer.header_bytes is None:
        return answer.body
    return encode_response(decode_response(answer.body, str(answer.header_bytes))).body
