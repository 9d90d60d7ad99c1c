"""What devices send is bounded, checked, and refused in words."""

import pytest

from cloud.fleet.parsing import State, said, whose
from shared.errors import Malformed, TooLarge
from shared.fleet.reported import ReportedInventory


def test_a_topic_says_who_and_what() -> None:
    assert whose("hy/v1/cam-1/up/reported/model") == ("cam-1", "reported/model")
    assert whose("hy/v1/cam-1/up/state") == ("cam-1", "state")


@pytest.mark.parametrize(
    "topic",
    [
        "hy/v1/cam-1/up/reported/secrets",
        "hy/v1/cam-1/up/esc",
        "hy/v1/a b/up/tel",
        "x",
        "hy/v1//up/tel",
    ],
)
def test_a_topic_that_is_none_of_ours(topic: str) -> None:
    with pytest.raises(Malformed):
        whose(topic)


def test_presence_is_flat_and_takes_what_else_devices_say() -> None:
    one = said("a", "state", b'{"online": true, "model": "m", "model_version": "1.0.0"}')
    assert one.document == State(online=True)


@pytest.mark.parametrize("kind", ["state", "tel", "told", "reported/model", "reported/profile"])
@pytest.mark.parametrize(
    "payload", [b"", b"{", b"[]", b"\xff\xff", b'{"online": "perhaps"}', b"null"]
)
def test_nonsense_is_malformed(kind: str, payload: bytes) -> None:
    with pytest.raises(Malformed):
        said("a", kind, payload)


@pytest.mark.parametrize(
    ("kind", "size"),
    [("state", 2000), ("tel", 21_000), ("told", 66_000), ("reported/inventory", 17_000)],
)
def test_too_much_is_not_read(kind: str, size: int) -> None:
    with pytest.raises(TooLarge):
        said("a", kind, b" " * size)


def test_a_report_is_the_document_of_its_section() -> None:
    content = ReportedInventory(
        sequence=1, at=0.0, agent="1", system="s", arch="a", cpu="c", cores=1, memory_bytes=1,
        disk_bytes=1,
    ).to_bytes()  # fmt: skip
    assert isinstance(said("a", "reported/inventory", content).document, ReportedInventory)
    with pytest.raises(Malformed):
        said("a", "reported/model", content)


_TALLY = '{"boot":"%s","sequence":1,"at":1,"uptime_s":1,"interval_s":1,"tally":{"model":"m",' % (
    "0" * 16
)
_TALLY += '"version":"1.0.0",%s}}'


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("told", '{"id":"' + "0" * 16 + '","lines":[' + "1," * 30_000 + "1]}"),
        ("tel", _TALLY % f'"latency":[{"-1," * 5000}-1]'),
        ("tel", _TALLY % f'"confidence":[{"[]," * 5000}[]]'),
        ("tel", _TALLY % f'"confidence":[{"[" + "-1," * 9 + "-1]," * 400}[]]'),
    ],
    ids=["lines", "latency", "rows", "row"],
)
def test_of_thousands_of_mistakes_the_first_ends_it(kind: str, text: str) -> None:
    """Each costs microseconds with the interpreter's lock held: 30,000 lines took 0.2 s."""
    with pytest.raises(Malformed) as caught:
        said("a", kind, text.encode())
    assert "more" not in str(caught.value)
    assert len(str(caught.value)) < 200
