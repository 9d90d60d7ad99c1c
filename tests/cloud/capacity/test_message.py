from typing import Any

import numpy as np
import pytest

from cloud.capacity.load.arrivals import Stretch
from cloud.capacity.load.open_loop import _Next
from cloud.capacity.load.order import Messages, Order
from cloud.capacity.message import Face, Head, Input, random_messages, read_face, recorded_messages
from shared.errors import Malformed, TooLarge
from shared.oip.request import decode_request

HEAD = Head("127.0.0.1:8700", {"X-API-Key": "k"})


def face(datatype: str, *shape: int, more: tuple[Input, ...] = ()) -> Face:
    one = Input.model_validate({"name": "x", "datatype": datatype, "shape": (-1, *shape)})
    return Face(name="tiny/odd", inputs=(one, *more))


def arrays(message: bytes) -> list[Any]:
    """What a server reads."""
    head, _, body = message.partition(b"\r\n\r\n")
    lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    assert int(lines["Content-Length"]) == len(body)
    assert lines["X-API-Key"] == "k"
    request = decode_request(body, lines["Inference-Header-Content-Length"])
    assert request.binary_data_output
    return [tensor.array for tensor in request.inputs]


@pytest.mark.parametrize("datatype", ["UINT8", "FP16", "FP32", "FP64", "BOOL"])
def test_random_rows_are_what_the_model_takes(datatype: str) -> None:
    messages = random_messages(face(datatype, 4, 4), 3, HEAD, np.random.default_rng(1))
    assert messages.each[0].startswith(b"POST /v2/models/tiny%2Fodd/infer HTTP/1.1\r\n")
    (rows,) = arrays(messages.each[0])
    assert rows.shape == (3, 4, 4)


@pytest.mark.parametrize("datatype", ["UINT8", "FP16", "FP32", "FP64"])
def test_no_request_comes_twice_and_its_numbers_stay_numbers(datatype: str) -> None:
    messages = random_messages(face(datatype, 4, 4), 1, HEAD, np.random.default_rng(1))
    next_message = _Next(messages)
    sent = [next_message(n) for n in [*range(300), 0x7F80_0000]]  # an infinity's bits
    assert len(set(sent)) == 301
    for message in (sent[0], sent[255], sent[-1]):
        (rows,) = arrays(message)
        assert np.isfinite(rows).all()
        assert np.abs(rows.astype(float) - arrays(messages.each[0])[0]).max() < 256
    if datatype != "UINT8":
        assert arrays(sent[-1])[0].max() < 1.01


def test_two_inputs_go_in_one_request() -> None:
    more = Input(name="y", datatype="UINT8", shape=(-1, 2))
    messages = random_messages(face("FP32", 1, more=(more,)), 2, HEAD, np.random.default_rng(1))
    x, y = arrays(_Next(messages)(0x01020304))
    assert (x.shape, y.shape) == ((2, 1), (2, 2))
    assert np.isfinite(x).all()


def test_recorded_rows_go_in_turn() -> None:
    rows = np.arange(20, dtype=np.uint8).reshape(5, 4)
    messages = recorded_messages(face("UINT8", 4), 2, HEAD, rows)
    assert [arrays(one)[0].tolist() for one in messages.each] == [
        rows[:2].tolist(), rows[2:4].tolist(),
    ]  # fmt: skip
    assert _Next(messages)(3) == messages.each[1]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (np.zeros((2, 4), np.float32), "float32"), (np.zeros((2, 5), np.uint8), r"\[2, 5\]"),
        (np.zeros((2, 4, 1), np.uint8), r"\[2, 4, 1\]"), (np.zeros((0, 4), np.uint8), "0 rows"),
    ],
)  # fmt: skip
def test_an_array_that_is_not_the_models_input_is_refused(rows: Any, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        recorded_messages(face("UINT8", 4), 1, HEAD, rows)


def test_inputs_that_cannot_be_made_up_are_refused() -> None:
    rng = np.random.default_rng(1)
    for odd in (face("INT64", 4), face("BYTES", 4), face("FP32", -1, 4)):
        with pytest.raises(Malformed, match="--input"):
            random_messages(odd, 1, HEAD, rng)
    with pytest.raises(TooLarge, match="--rows"):
        random_messages(face("FP32", 4096, 4096), 2, HEAD, rng)
    more = (Input(name="y", datatype="UINT8", shape=(-1, 2)),)
    with pytest.raises(Malformed, match="x, y"):
        recorded_messages(face("UINT8", 4, more=more), 1, HEAD, np.zeros((1, 4), np.uint8))


def test_recorded_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloud.capacity.message.BYTES_MAX", 1000)
    with pytest.raises(TooLarge, match="1000 bytes"):
        recorded_messages(face("UINT8", 4), 1, HEAD, np.zeros((50, 4), np.uint8))


@pytest.mark.parametrize(
    "document", [b"", b"[]", b'{"name": "a"}', b'{"name": "a", "inputs": [{"name": "x"}]}', b"\xff"]
)
def test_metadata_that_is_none_is_refused(document: bytes) -> None:
    with pytest.raises(Malformed, match="metadata"):
        read_face(document)


def test_an_order_arrives_as_it_was_given() -> None:
    order = Order("h", 1, Messages((b"\x00\xff", b"b"), (1,)), [Stretch(2.5, 3.0)], 4, 5, 0.5, "/o")
    assert Order.parse(order.text()) == order
