"""One-time tokens: a device that has none of its own shows one for its first certificate. Pure.

`het_<id>_<secret>`: the id names the record, the secret has 160 random bits, so its plain SHA-256 is
all that is stored (a slow hash protects what people choose). Whoever keeps the records uses one up
in the same transaction that stores the certificate: two that come at once with one token get one.
"""

import hashlib
import hmac
import re
from base64 import b32encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from cloud.fleet.documents import EnrolmentToken
from shared.errors import Conflict, Forbidden, Malformed, NotTrusted
from shared.ids import DeviceId, device_id

PREFIX: Final = "het"
TTL_S_MIN: Final = 60.0
TTL_S_MAX: Final = 365 * 86_400.0
RESERVED: Final = frozenset({"worker", "fleet", "trust", "tuf", "hybridge-owner"})
"""Users of the broker that are no devices, and a level of the topic tree."""
_ID_BYTES: Final = 10
_SECRET_BYTES: Final = 20
_TOKEN: Final = re.compile(r"het_([a-z2-7]{16})_([a-z2-7]{32})")
_UNKNOWN: Final = "this enrolment token is not known here; ask the operator for a new one"


@dataclass(frozen=True, slots=True)
class NewToken:
    """`text` is shown once; the document and the hash are stored."""

    text: str = field(repr=False)
    document: EnrolmentToken
    secret_sha256: str


@dataclass(frozen=True, slots=True)
class Presented:
    """A token as somebody showed it; whether it is one, `admit` says."""

    id: str
    secret: str = field(repr=False)


def new_token(
    *,
    made_by: str,
    now: float,
    ttl_s: float,
    random_bytes: Callable[[int], bytes],
    device: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> NewToken:
    """Make one; `random_bytes` is `secrets.token_bytes`, `device` whom it is for alone.

    Raises `Malformed`: a life under a minute or over a year (in s), or a name no device may have.
    """
    if not TTL_S_MIN <= ttl_s <= TTL_S_MAX:
        raise Malformed(
            f"ttl_s: {ttl_s:g} s is no life for a token; "
            f"take {TTL_S_MIN:.0f} to {TTL_S_MAX:.0f} (an hour is 3600)"
        )
    if device is not None:
        device = device_name(device)
    name, secret = _word(random_bytes(_ID_BYTES)), _word(random_bytes(_SECRET_BYTES))
    document = EnrolmentToken(
        id=name, device=device, labels=dict(labels or {}), made_by=made_by, made_at=now,
        expires_at=now + ttl_s,
    )  # fmt: skip
    return NewToken(f"{PREFIX}_{name}_{secret}", document, secret_hash(secret))


def presented(text: str) -> Presented:
    """Take a token apart. Raises `Malformed`, without its text: most of it may be a secret."""
    found = _TOKEN.fullmatch(text.strip()) if len(text) <= 100 else None
    if found is None:
        raise Malformed("token: want het_<16 characters>_<32 characters>, as it was given out")
    return Presented(found[1], found[2])


def secret_hash(secret: str) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(secret.encode()).hexdigest()


def admit(
    shown: Presented,
    stored: EnrolmentToken | None,
    stored_secret_sha256: str,
    device: str,
    now: float,
) -> DeviceId:
    """The device that this token enrols now; `stored` None: there is no such record.

    Raises:
        NotTrusted: no such token, a wrong secret, or its time has passed.
        Conflict: it was used.
        Forbidden: it is another device's.
        Malformed: no device may be called that.

    """
    matches = hmac.compare_digest(secret_hash(shown.secret), stored_secret_sha256)
    if stored is None or not matches or stored.id != shown.id:
        raise NotTrusted(_UNKNOWN)  # the same words: a guess learns nothing about ids
    if stored.used_at is not None:
        raise Conflict(
            f"this enrolment token was used for {stored.used_for}; each is for one enrolment: "
            "ask the operator for a new one"
        )
    if now >= stored.expires_at:
        raise NotTrusted("this enrolment token has expired; ask the operator for a new one")
    name = device_name(device)
    if stored.device is not None and stored.device != name:
        raise Forbidden(f"this enrolment token is for another device than {name}")
    return name


def device_name(text: str) -> DeviceId:
    """Raises `Malformed` for what is no device id, and for names that mean something else."""
    name = device_id(text)
    if name.casefold() in RESERVED:
        raise Malformed(
            f"device id {name!r}: that name is taken by Hybridge itself; choose another"
        )
    return name


def _word(random: bytes) -> str:
    return b32encode(random).decode().rstrip("=").lower()
