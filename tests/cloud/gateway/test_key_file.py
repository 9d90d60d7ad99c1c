import json
import secrets
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.gateway.api_key import make_key
from cloud.gateway.key_file import KeyLine, parse, with_key, without_key
from cloud.gateway.roles import Role
from shared.errors import Malformed, Unknown


def line(name: str = "line-3", **more) -> KeyLine:
    key = make_key(secrets.choice)
    return KeyLine(id=key.id, name=name, roles=(Role.INFER,), sha256=key.digest.hex(), **more)


def tree(**changed) -> str:
    all_of_it = {"id": "a" * 10, "name": "n", "roles": ["infer"], "sha256": "0" * 64, **changed}
    return json.dumps({name: value for name, value in all_of_it.items() if value is not None})


def test_a_key_is_added_found_and_removed_and_the_rest_stays():
    one, two = line("one"), line("two", rate="5/second")
    text = with_key("# ours\n\n", one, "f")
    text = with_key(text, two, "f")
    assert text.startswith("# ours\n\n{")
    assert parse(text, "f") == {one.id: one, two.id: two}
    after, gone = without_key(text, "one", "f")
    assert gone == one
    assert parse(after, "f") == {two.id: two}
    assert after.startswith("# ours\n\n{")


def test_a_missing_line_end_is_made_up_for():
    one, two = line(), line()
    text = with_key(with_key("", one, "f").rstrip("\n"), two, "f")
    assert list(parse(text, "f")) == [one.id, two.id]


def test_a_name_with_two_keys_is_not_removed_by_name():
    one, two = line("same"), line("same")
    text = with_key(with_key("", one, "f"), two, "f")
    with pytest.raises(Malformed, match=f"{one.id}, {two.id}; name one by its id"):
        without_key(text, "same", "f")
    assert without_key(text, two.id, "f")[1] == two
    with pytest.raises(Unknown, match="no key 'nobody'; nothing was changed"):
        without_key(text, "nobody", "f")


def test_a_key_ends_at_its_time():
    ends = datetime(2030, 1, 1, tzinfo=UTC)
    one = line(expires=ends)
    assert not one.is_expired(datetime(2029, 12, 31, 23, 59, 59, tzinfo=UTC))
    assert one.is_expired(ends)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "line 1"),
        ("[]", "line 1"),
        ("\n" + tree(id="short"), "line 2: id"),
        (tree(id="a" * 11), "id"),
        (tree(name="x" * 65), "name"),
        (tree(name="a b"), "name"),
        (tree(name="\x1b[31m"), "name"),
        (tree(name="ok\n"), "name"),
        (tree(roles=[]), "roles"),
        (tree(roles=["root"]), "roles"),
        (tree(sha256="0" * 63), "sha256"),
        (tree(sha256="Z" * 64), "sha256"),
        (tree(sha256=None), "sha256: is missing"),
        (tree(expires="2030-01-01T00:00:00"), "expires"),  # of which zone?
        (tree(expires="soon"), "expires"),
        (tree(rate="a lot"), "rate"),
        (tree(body_bytes_max=0), "body_bytes_max"),
        (tree(in_hand_max=-1), "in_hand_max"),
        (tree(admin=True), "admin: no such setting"),
        (tree() + "\n" + tree(), "line 2: key aaaaaaaaaa stands here a second time"),
        ('{"id": ' + "[" * 5000, "line 1"),
        (tree(created=10**400), "created"),
    ],
)
def test_a_line_with_a_mistake_is_named_with_its_place(text, why):
    with pytest.raises(Malformed, match=why) as refused:
        parse(text, "keys.jsonl")
    assert "keys.jsonl" in str(refused.value)
    assert "0" * 40 not in str(refused.value)


def test_a_file_has_so_many_keys(monkeypatch):
    monkeypatch.setattr("cloud.gateway.key_file.KEYS_MAX", 2)
    text = with_key(with_key("", line(), "f"), line(), "f")
    assert len(parse(text, "f")) == 2
    with pytest.raises(Malformed, match="line 3: a file has up to 2 keys"):
        with_key(text, line(), "f")


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_keys_or_refused(text):
    try:
        found = parse(text, "f")
    except Malformed:
        return
    assert not found  # only blank and comment lines
