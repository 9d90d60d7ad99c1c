import re
import secrets
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.gateway.api_key import ALPHABET, PATTERN, checksum, make_key, read_key
from cloud.gateway.refusals import Reason, Untrusted


def test_a_new_key_is_read_back_and_found_by_secret_scanners():
    key = make_key(secrets.choice)
    assert read_key(key.text) == key
    assert key.matches(key.digest)
    assert re.fullmatch(PATTERN, key.text)
    assert re.findall(PATTERN, f"API_KEY={key.text}\n") == [key.text]
    assert len(key.text) == 63


def test_two_keys_differ_and_printing_one_shows_no_secret():
    one, other = make_key(secrets.choice), make_key(secrets.choice)
    assert one.id != other.id
    assert not one.matches(other.digest)
    assert one.text not in repr(one)
    assert one.text[-49:] not in f"{one}"


def test_the_checksum_is_of_a_known_value():
    # scanners elsewhere work it out by themselves: CRC-32 (0xCBF43926 for these digits), base 62
    assert checksum("123456789") == _base62(0xCBF43926)
    assert string.digits + string.ascii_uppercase + string.ascii_lowercase == ALPHABET


def _base62(value: int) -> str:
    digits = []
    while value:
        value, rest = divmod(value, 62)
        digits.append(ALPHABET[rest])
    return "".join(reversed(digits)).rjust(6, "0")


@settings(deadline=None)
@given(st.integers(0, 62), st.sampled_from(ALPHABET))
def test_a_letter_changed_is_a_typo_not_a_forgery(place, letter):
    key = make_key(secrets.choice)
    changed = key.text[:place] + letter + key.text[place + 1 :]
    if changed == key.text:
        return
    with pytest.raises(Untrusted) as refused:
        read_key(changed)
    wanted = {Reason.MISTYPED_KEY, Reason.UNREADABLE}  # the frame itself may be hit
    assert refused.value.reason in wanted
    assert key.text[20:] not in str(refused.value)


def test_two_letters_changed_places_are_a_typo():
    key = make_key(secrets.choice)
    place = next(n for n in range(15, 60) if key.text[n] != key.text[n + 1])
    text = key.text
    swapped = text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    with pytest.raises(Untrusted) as refused:
        read_key(swapped)
    assert refused.value.reason is Reason.MISTYPED_KEY


@pytest.mark.parametrize(
    "text", ["", "hy_", "hy_short_x", "HY_" + "a" * 60, "hy_" + "é" * 10 + "_" + "a" * 49]
)
def test_what_is_no_key_is_told(text):
    with pytest.raises(Untrusted) as refused:
        read_key(text)
    assert refused.value.reason is Reason.UNREADABLE


def test_anything_after_a_key_is_no_key():
    text = make_key(secrets.choice).text
    for after in ("\n", " ", "x", text):
        with pytest.raises(Untrusted) as refused:
            read_key(text + after)
        assert refused.value.reason is Reason.UNREADABLE


@settings(deadline=None)
@given(st.text(max_size=100))
def test_any_text_is_refused(text):
    with pytest.raises(Untrusted):
        read_key(text)
