"""Tokens, good and forged, with real keys; RFC 8725 has the list of attacks."""

import hashlib
import hmac
import json
from dataclasses import replace

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cloud.gateway.refusals import Reason, Untrusted
from cloud.gateway.roles import Role
from cloud.gateway.token import UnknownSigner, verify
from tests.cloud.gateway.issuing import AT, AUDIENCE, ISSUER, RULES, Signer, b64, key_set

ONE = Signer("one")
KEYS = key_set(ONE, Signer("other"))


def check(token: str, keys=KEYS, rules=RULES, revoked=frozenset(), now=AT):
    return verify(token, keys, rules, revoked, now)


def reason(token: str, **more) -> Reason:
    with pytest.raises(Untrusted) as refused:
        check(token, **more)
    if len(token) > 60:
        assert token[30:60] not in str(refused.value)
    return refused.value.reason


def hs256(secret: bytes, **headers) -> str:
    """A token whose HMAC is right, made without the library's own guards."""
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "x", "exp": AT + 60, "roles": ["operate"]}
    head = {"alg": "HS256", "typ": "JWT", "kid": "one", **headers}
    text = f"{b64(json.dumps(head).encode())}.{b64(json.dumps(claims).encode())}"
    return f"{text}.{b64(hmac.digest(secret, text.encode(), hashlib.sha256))}"


def test_a_good_token_says_who_and_what():
    found = check(ONE.token(sub="line-3", roles=["infer", "observe", "somebody-elses"]))
    assert found.subject == "line-3"
    assert found.issuer == ISSUER
    assert found.roles == {Role.INFER, Role.OBSERVE}
    assert found.ends == AT + 3600 + RULES.leeway_s


@pytest.mark.parametrize(
    ("claims", "rules", "roles"),
    [
        ({"roles": None}, {}, set()),
        ({"roles": "infer jobs"}, {}, {Role.INFER, Role.JOBS}),
        ({"roles": ["operate"]}, {}, {Role.OPERATE}),
        ({"roles": "operated"}, {}, set()),
        ({"roles": [["operate"], {"operate": 1}, 5]}, {}, set()),
        ({"roles": {"operate": True}}, {}, set()),
        ({"scope": "infer"}, {"roles_claim": "scope"}, {Role.INFER}),
        ({"realm": {"roles": ["jobs"]}}, {"roles_claim": "realm.roles"}, {Role.JOBS}),
        ({"realm": ["jobs"]}, {"roles_claim": "realm.roles"}, set()),
        ({"https://a.b/r": ["jobs"]}, {"roles_claim": "https://a.b/r"}, {Role.JOBS}),
    ],
)
def test_roles_are_found_where_the_settings_say(claims, rules, roles):
    assert check(ONE.token(**claims), rules=replace(RULES, **rules)).roles == roles


def test_the_audience_may_be_one_of_several():
    assert check(ONE.token(aud=["others", AUDIENCE]))
    assert reason(ONE.token(aud=["others"])) is Reason.WRONG_AUDIENCE
    assert reason(ONE.token(aud="other")) is Reason.WRONG_AUDIENCE
    assert reason(ONE.token(aud={AUDIENCE: 1})) is Reason.WRONG_AUDIENCE


def test_another_issuer_is_refused():
    assert reason(ONE.token(iss="https://evil.example")) is Reason.WRONG_ISSUER
    assert reason(ONE.token(iss=ISSUER + "/")) is Reason.WRONG_ISSUER


@pytest.mark.parametrize("name", ["exp", "iss", "aud", "sub"])
def test_a_claim_that_must_be_there_must(name):
    assert reason(ONE.token(**{name: None})) is Reason.BAD_CLAIMS


def test_times_count_with_leeway_and_by_the_clock_that_is_given():
    token = ONE.token(exp=AT + 100)
    assert check(token, now=AT + 129.9)
    assert reason(token, now=AT + 130) is Reason.EXPIRED_TOKEN
    for name in ("nbf", "iat"):
        token = ONE.token(**{name: AT + 100})
        assert reason(token, now=AT + 69) is Reason.EARLY_TOKEN
        assert check(token, now=AT + 70)
    assert check(ONE.token(exp=AT + 5, iat=None))


@pytest.mark.parametrize("value", ["soon", True, [], {}, "1900000000"])
@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
def test_a_time_that_is_no_number_is_refused(name, value):
    token = ONE.raw_token(
        json.dumps({"alg": "EdDSA", "kid": "one"}).encode(),
        json.dumps(
            {"iss": ISSUER, "aud": AUDIENCE, "sub": "a", "exp": AT + 9, name: value}
        ).encode(),
    )
    assert reason(token) is Reason.BAD_CLAIMS


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "1" * 400, "9" * 2000])
def test_a_time_without_end_is_refused(value):
    token = ONE.raw_token(
        b'{"alg":"EdDSA","kid":"one"}',
        f'{{"iss":"{ISSUER}","aud":"{AUDIENCE}","sub":"a","exp":{value}}}'.encode(),
    )
    assert reason(token) is Reason.BAD_CLAIMS


@pytest.mark.parametrize("subject", ["", "a" * 201, "a\nb", "\x1b[31m", "\x00"])
def test_a_subject_that_would_spoil_a_log_is_refused(subject):
    assert reason(ONE.token(sub=subject)) is Reason.BAD_CLAIMS


def test_a_revoked_token_is_refused():
    token = ONE.token(jti="t-1")
    assert check(token)
    assert reason(token, revoked=frozenset({"t-1"})) is Reason.REVOKED_TOKEN
    assert check(ONE.token(), revoked=frozenset({"t-1"}))
    head, payload = b'{"alg":"EdDSA","kid":"one"}', {"iss": ISSUER, "aud": AUDIENCE, "sub": "a"}
    odd = json.dumps({**payload, "exp": AT + 9, "jti": ["t-1"]}).encode()
    assert reason(ONE.raw_token(head, odd)) is Reason.BAD_CLAIMS


def test_no_signature_is_no_signature():
    for alg in ("none", "None", "NONE", "nOnE"):
        head = b64(json.dumps({"alg": alg, "kid": "one"}).encode())
        payload = ONE.token(roles=["operate"]).split(".")[1]
        assert reason(f"{head}.{payload}.") is Reason.WRONG_ALGORITHM
    head, payload, _ = ONE.token().split(".")
    assert reason(f"{head}.{payload}.") is Reason.FORGED_TOKEN


def test_the_public_key_is_nobodys_hmac_secret():
    public = ONE.private.public_key()
    forms = [
        ONE.raw,
        b64(ONE.raw).encode(),
        public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo),
        json.dumps(ONE.jwk()).encode(),
        b"",
    ]  # fmt: skip
    for secret in forms:
        assert reason(hs256(secret)) is Reason.WRONG_ALGORITHM
        assert reason(hs256(secret, alg="EdDSA")) is Reason.FORGED_TOKEN


@pytest.mark.parametrize(
    "alg", ["ES256", "RS256", "HS512", "Ed448", "eddsa", "", None, 5, [], ["EdDSA"], {}]
)
def test_another_algorithm_is_refused(alg):
    head = json.dumps({"alg": alg, "kid": "one"}).encode()
    assert reason(ONE.raw_token(head, b"{}")) is Reason.WRONG_ALGORITHM


def test_other_real_algorithms_are_refused():
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "x", "exp": AT + 60}
    with_ec = jwt.encode(claims, ec.generate_private_key(ec.SECP256R1()), "ES256", {"kid": "one"})
    with_rsa = jwt.encode(
        claims,
        rsa.generate_private_key(public_exponent=65537, key_size=2048),
        "RS256",
        {"kid": "one"},
    )
    assert reason(with_ec) is reason(with_rsa) is Reason.WRONG_ALGORITHM


def test_a_strangers_key_is_not_taken_wherever_it_comes_from():
    stranger = Signer("one")  # the issuer's name for its key, and another key
    assert reason(stranger.token()) is Reason.FORGED_TOKEN
    brought = {"jwk": stranger.jwk(), "jku": "https://evil.example/keys", "x5u": "https://evil"}
    assert reason(stranger.token(headers=brought)) is Reason.FORGED_TOKEN


@pytest.mark.parametrize("key_id", ["nobody", "", "../../etc/passwd", "' OR 1=1 --", "k" * 2000])
def test_a_key_that_is_not_there_is_told_apart(key_id):
    with pytest.raises(UnknownSigner) as refused:
        check(ONE.token(headers={"kid": key_id}))
    assert refused.value.reason is Reason.UNKNOWN_SIGNER


@pytest.mark.parametrize("key_id", [5, ["one"], {"a": 1}, True])
def test_a_key_id_that_is_no_text_is_none_of_the_issuers(key_id):
    head = json.dumps({"alg": "EdDSA", "kid": key_id}).encode()
    assert reason(ONE.raw_token(head, b"{}")) is Reason.UNKNOWN_SIGNER


def test_a_token_without_a_key_id_is_for_issuers_with_one_key():
    lone = Signer(None)
    assert check(lone.token(), keys=key_set(lone))
    assert reason(lone.token(), keys=key_set(lone, Signer("other"))) is Reason.UNKNOWN_SIGNER


def test_an_extension_that_must_be_understood_is_not():
    token = ONE.token(headers={"crit": ["exp2"], "exp2": 1})
    assert reason(token) is Reason.UNREADABLE


def test_a_huge_token_is_not_looked_at():
    huge = ONE.token(note="x" * 5000)
    assert len(huge) > RULES.token_bytes_max
    assert reason(huge) is Reason.TOO_LONG
    assert check(huge, rules=replace(RULES, token_bytes_max=16_384))
    assert reason("." * 1_000_000) is Reason.TOO_LONG


@pytest.mark.parametrize(
    "token",
    [
        "", ".", "..", "...", "a.b.c", "é.é.é", "\udc80.\udc80.\udc80",
        b64(b'{"alg":"EdDSA","kid":"one"}') + ".\udc80.AA", b64(b'{"alg":"EdDSA","kid":"one"}') + ".é.AA",
        "null.null.null",
        b64(b"[]") + ".e30.AA", b64(b"5") + ".e30.AA", b64(b"[" * 2000) + ".e30.AA",
        b64(b'{"alg":' * 300) + ".e30.AA", b64(b"\xff\xfe") + ".e30.AA",
    ],
)  # fmt: skip
def test_garbage_is_refused(token):
    assert reason(token) is Reason.UNREADABLE


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"5", b'"a"', b"null", b"[" * 2000, b"\xff", b'{"a":' * 400]
)
def test_a_signed_payload_that_is_no_claims_is_refused(payload):
    token = ONE.raw_token(b'{"alg":"EdDSA","kid":"one"}', payload)
    assert reason(token) in (Reason.UNREADABLE, Reason.BAD_CLAIMS)


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_refused(text):
    with pytest.raises(Untrusted):
        check(text)


GOOD = ONE.token()


@settings(deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.characters(codec="ascii"))
@example(len(GOOD) - 1, "=")
def test_a_token_changed_anywhere_is_refused(place, letter):
    changed = GOOD[:place] + letter + GOOD[place + 1 :]
    if changed != GOOD:
        with pytest.raises(Untrusted):
            check(changed)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
names = st.sampled_from(["iss", "aud", "sub", "exp", "nbf", "iat", "jti", "roles"])
heads = st.sampled_from(["alg", "kid", "typ", "crit", "b64", "cty", "jwk"])


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(names, anything), st.dictionaries(heads, anything))
def test_any_claims_and_headers_signed_well_are_a_caller_or_refused(claims, headers):
    payload = {"iss": ISSUER, "aud": AUDIENCE, "sub": "a", "exp": AT + 9, **claims}
    head = {"alg": "EdDSA", "kid": "one", **headers}
    token = ONE.raw_token(json.dumps(head).encode(), json.dumps(payload).encode())
    try:
        found = check(token)
    except Untrusted:
        return
    assert found.subject == payload["sub"]
    assert found.ends > AT
    assert isinstance(found.roles, frozenset)
