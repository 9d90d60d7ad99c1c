import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.gateway.rates import parse_rates, said
from shared.errors import Malformed


def test_limits_are_read_in_their_order_and_once():
    found = parse_rates("100/second; 10000/hour;100 per second ; 5/2 minute")
    assert [said(one) for one in found] == ["100/second", "10000/hour", "5/2 minute"]
    assert [one.get_expiry() for one in found] == [1, 3600, 120]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "write it as"),
        ("fast", "write it as"),
        ("100", "write it as"),
        ("100/fortnight", "write it as"),
        ("-1/second", "write it as"),
        ("1.5/second", "write it as"),
        ("0/second", "an amount is 1"),
        ("2000000000/second", "an amount is 1"),
        ("1/2 year", "at most a year"),
        ("9/second;" * 30, "up to 200 characters"),
        ("1" * 190 + "/second", "an amount is 1"),
    ],
)
def test_what_is_no_limit_is_refused_in_words(text, why):
    with pytest.raises(Malformed, match=why):
        parse_rates(text)


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_limits_or_refused(text):
    try:
        found = parse_rates(text)
    except Malformed:
        return
    assert found
    assert parse_rates("; ".join(map(said, found))) == found
