import pytest

from cloud.cli.rollout_words import seconds, share, span
from shared.errors import Malformed


@pytest.mark.parametrize(
    ("text", "found"),
    [("48h", 172_800), ("1h30m", 5400), ("90s", 90), ("5400", 5400), ("0", 0), ("1.5h", 5400)],
)
def test_durations(text: str, found: float) -> None:
    assert seconds(text, "--watch") == found


@pytest.mark.parametrize("text", ["", "h", "48 hours", "-1h", "1h-2m", "٣h", "1e9", "9" * 40])
def test_what_is_no_duration_is_named(text: str) -> None:
    with pytest.raises(Malformed, match=r"--watch .*: write it as 48h"):
        seconds(text, "--watch")


@pytest.mark.parametrize(("text", "found"), [("5%", 0.05), ("0.05", 0.05), ("100%", 1), ("1", 1)])
def test_shares(text: str, found: float) -> None:
    assert share(text, "--canary") == found


@pytest.mark.parametrize("text", ["", "%", "101%", "5", "-1%", "nan", "5 percent"])
def test_what_is_no_share_is_named(text: str) -> None:
    with pytest.raises(Malformed, match=r"--canary .*write it as 5% or 0.05"):
        share(text, "--canary")


@pytest.mark.parametrize(
    ("seconds_", "text"),
    [
        (0, "0 s"), (-3, "0 s"), (59.2, "60 s"), (61, "2 min"), (3600, "1 h"), (3661, "1 h 02 min"),
        (172_800, "2 d"), (180_060, "2 d 3 h"), (float("inf"), "never"),
    ],
)  # fmt: skip
def test_spans_are_never_shorter_than_they_are(seconds_: float, text: str) -> None:
    assert span(seconds_) == text
