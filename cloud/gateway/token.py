"""JSON Web Tokens (RFC 7519), signed with Ed25519 (EdDSA, RFC 8037), checked as RFC 8725 says. Pure.

The algorithm is fixed here and never taken from the token, and the key is an Ed25519 one by type:
`none`, or an HMAC with the public key for its secret, have nothing to work with. Headers that name
or bring a key (`jku`, `x5u`, `jwk`) are not looked at.
"""

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt
from jwt.exceptions import InvalidJTIError, InvalidSubjectError

from cloud.gateway.jwks import KeySet
from cloud.gateway.refusals import Reason, Untrusted
from cloud.gateway.roles import Role

SUBJECT_MAX: Final = 200
_ALGORITHM: Final = "EdDSA"
_BROKEN: Final = "this is no JSON Web Token; ask the issuer for a new one"


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token must say."""

    issuer: str
    audience: str
    leeway_s: float
    roles_claim: str
    token_bytes_max: int


@dataclass(frozen=True, slots=True)
class Verified:
    """What a token said that checked out."""

    issuer: str
    subject: str
    roles: frozenset[Role]
    ends: float  # Unix time after which it is not taken any more, leeway included


class UnknownSigner(Untrusted):
    """The key that a token names is not in the set; the issuer may have made it just now."""


def verify(
    token: str, keys: KeySet, rules: TokenRules, revoked: frozenset[str], now: float
) -> Verified:
    """Check a token at `now`, Unix time. About 0.2 ms.

    Raises:
        UnknownSigner: see there.
        Untrusted: for everything else that does not check out.

    """
    if len(token) > rules.token_bytes_max:
        raise Untrusted(
            Reason.TOO_LONG, f"a token has up to {rules.token_bytes_max:,} bytes; put less into it"
        )
    header = _header(token)
    if header.get("alg") != _ALGORITHM:
        raise Untrusted(Reason.WRONG_ALGORITHM, "tokens are signed with EdDSA (Ed25519) only")
    key_id = header.get("kid")
    key = keys.find(key_id) if key_id is None or isinstance(key_id, str) else None
    if key is None:
        raise UnknownSigner(
            Reason.UNKNOWN_SIGNER, "the key that this token names is none of the issuer's"
        )
    claims = _signed_claims(token, key, rules)
    ends = _check_times(claims, rules.leeway_s, now)
    token_id = claims.get("jti")
    if token_id in revoked:
        raise Untrusted(
            Reason.REVOKED_TOKEN, "this token was revoked; ask the issuer for a new one"
        )
    return Verified(rules.issuer, _subject(claims), _roles(_claim(claims, rules.roles_claim)), ends)


def _header(token: str) -> Mapping[str, Any]:
    """Give what a token says of itself, to find the key by; PyJWT reads all of it again, stricter."""
    text = token.partition(".")[0]
    try:
        found = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError) as error:
        raise Untrusted(Reason.UNREADABLE, _BROKEN) from error
    if not isinstance(found, dict):
        raise Untrusted(Reason.UNREADABLE, _BROKEN)
    return found


def _signed_claims(token: str, key: Any, rules: TokenRules) -> Mapping[str, Any]:
    try:
        return jwt.decode(
            token,
            key,
            algorithms=[_ALGORITHM],
            audience=rules.audience,
            issuer=rules.issuer,
            # times are checked below, by the clock that is given here
            options={
                "require": ["exp", "iss", "aud", "sub"],
                "verify_exp": False, "verify_nbf": False, "verify_iat": False,
            },
        )  # fmt: skip
    except jwt.InvalidSignatureError as error:
        raise Untrusted(
            Reason.FORGED_TOKEN, "the signature does not fit this token; ask for a new one"
        ) from error
    except jwt.InvalidAudienceError as error:
        raise Untrusted(
            Reason.WRONG_AUDIENCE, f"the token is not for {rules.audience!r}; ask for one that is"
        ) from error
    except jwt.InvalidIssuerError as error:
        raise Untrusted(
            Reason.WRONG_ISSUER, f"the token is not from {rules.issuer!r}; ask there for one"
        ) from error
    except jwt.MissingRequiredClaimError as error:
        raise Untrusted(
            Reason.BAD_CLAIMS, f"the token has no {error.claim}; ask for one that has"
        ) from error
    except (InvalidSubjectError, InvalidJTIError) as error:
        raise Untrusted(Reason.BAD_CLAIMS, "sub and jti are texts") from error
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise Untrusted(Reason.UNREADABLE, _BROKEN) from error


def _check_times(claims: Mapping[str, Any], leeway_s: float, now: float) -> float:
    """Give when the token ends; raises `Untrusted` for one that is over or has not begun."""
    ends = _time(claims, "exp", now) + leeway_s
    if now >= ends:
        raise Untrusted(Reason.EXPIRED_TOKEN, "the token has expired; ask the issuer for a new one")
    for name in ("nbf", "iat"):
        if _time(claims, name, now) > now + leeway_s:
            raise Untrusted(
                Reason.EARLY_TOKEN,
                f"the token is not valid yet ({name}); wait, or set the issuer's clock",
            )
    return ends


def _time(claims: Mapping[str, Any], name: str, default: float) -> float:
    value = claims.get(name, default)
    try:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(name)  # noqa: TRY301  the same words for all of it
        found = float(value)
        if not math.isfinite(found):
            raise ValueError(name)  # noqa: TRY301  the same words for all of it
    except (TypeError, ValueError, OverflowError) as error:
        raise Untrusted(Reason.BAD_CLAIMS, f"{name} is a number of seconds since 1970") from error
    return found


def _subject(claims: Mapping[str, Any]) -> str:
    subject = claims["sub"]
    if not (
        isinstance(subject, str) and 1 <= len(subject) <= SUBJECT_MAX and subject.isprintable()
    ):
        raise Untrusted(
            Reason.BAD_CLAIMS, f"sub has 1 to {SUBJECT_MAX} characters that can be printed"
        )
    return subject


def _claim(claims: Mapping[str, Any], name: str) -> object:
    """Give a claim by its name, or by a path: Keycloak has roles in `realm_access.roles`."""
    if name in claims:
        return claims[name]
    found: object = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _roles(value: object) -> frozenset[Role]:
    """Give the roles among a list of texts, or a text with spaces between; others are not ours."""
    texts = value.split() if isinstance(value, str) else value if isinstance(value, list) else ()
    return frozenset(role for role in Role if role.value in texts)
