import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.gateway.jwks import KEYS_MAX, SET_BYTES_MAX, parse_jwks
from shared.errors import Malformed, Refused, TooLarge
from tests.cloud.gateway.issuing import Signer, b64, jwks, key_set

ONE = Signer("one")


def body(*entries: object) -> bytes:
    return json.dumps({"keys": entries}).encode()


def test_keys_are_found_by_their_id():
    two = Signer("two")
    found = key_set(ONE, two)
    assert found.find("one").public_bytes_raw() == ONE.raw
    assert found.find("two").public_bytes_raw() == two.raw
    assert found.find("three") is None


def test_a_token_without_a_key_id_means_the_only_key_or_none():
    assert key_set(ONE).find(None).public_bytes_raw() == ONE.raw
    assert key_set(Signer(None)).find(None) is not None
    assert key_set(ONE, Signer("two")).find(None) is None


def test_keys_of_other_kinds_and_uses_are_passed_over():
    rsa = {"kty": "RSA", "kid": "r", "n": "AQAB", "e": "AQAB"}
    secret = {"kty": "oct", "kid": "o", "k": "c2VjcmV0"}
    found = parse_jwks(
        body(
            rsa, secret, 7, None, [], {"kty": "OKP", "crv": "X25519", "x": "a"},
            ONE.jwk(kid="enc", use="enc"), ONE.jwk(kid="other", alg="ES256"),
            ONE.jwk(use="sig", alg="EdDSA"),
        ),
        "keys",
    )  # fmt: skip
    assert list(found.raw) == ["one"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe{", "not JSON"),
        (b"[" * 20_000, "not JSON"),
        (b"[]", "want a JSON Web Key Set"),
        (b"{}", "want a JSON Web Key Set"),
        (b'{"keys": {}}', "want a JSON Web Key Set"),
        (body(), "no Ed25519 signing key"),
        (body({"kty": "RSA"}), "no Ed25519 signing key"),
        (body(ONE.jwk(), ONE.jwk()), r"keys\[1\]: a second key with this kid"),
        (body(ONE.jwk(d=b64(bytes(32)))), "holds a private key"),
        (body(ONE.jwk(kid=5)), "kid is a text"),
        (body(ONE.jwk(kid="k" * 300)), "kid is a text"),
        (body(ONE.jwk(x=None)), "x is not an Ed25519 public key"),
        (body(ONE.jwk(x="AAAA")), "x is not an Ed25519 public key"),
        (body(ONE.jwk(x="!" * 43)), "x is not an Ed25519 public key"),
        (body(ONE.jwk(x="A" * 10_000)), "x is not an Ed25519 public key"),
        (body(ONE.jwk(x="é" * 43)), "x is not an Ed25519 public key"),
    ],
)
def test_a_broken_set_is_refused_with_its_place(text, why):
    with pytest.raises(Malformed, match=why) as refused:
        parse_jwks(text, "https://login.example/keys")
    assert str(refused.value).startswith("https://login.example/keys")


def test_a_set_is_bounded():
    with pytest.raises(TooLarge, match="over 256 KiB"):
        parse_jwks(b" " * (SET_BYTES_MAX + 1), "keys")
    with pytest.raises(TooLarge, match=f"{KEYS_MAX} may be"):
        parse_jwks(body(*[{}] * (KEYS_MAX + 1)), "keys")


def test_whether_a_set_still_vouches_for_all():
    two = Signer("two")
    assert key_set(ONE, two).keeps_all_of(key_set(ONE))
    assert not key_set(two).keeps_all_of(key_set(ONE, two))
    assert not key_set(Signer("one")).keeps_all_of(key_set(ONE))  # the same name, another key


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kty", "kid", "x", "crv", "use", "alg", "d"]), inner, max_size=7),
    max_leaves=12,
)  # fmt: skip


@settings(deadline=None)
@given(
    st.lists(json_values, max_size=4),
    st.dictionaries(st.sampled_from(["kid", "x", "use", "alg", "d"]), json_values),
)
def test_any_set_is_keys_or_refused(entries, changed):
    with contextlib.suppress(Refused):
        assert parse_jwks(body(*entries, {**ONE.jwk(), **changed}), "keys").raw


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused(text):
    with pytest.raises(Refused):
        parse_jwks(text, "keys")


def test_the_same_set_reads_the_same():
    assert parse_jwks(jwks(ONE), "a") == parse_jwks(jwks(ONE), "b")
