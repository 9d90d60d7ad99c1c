"""Who a credential stands for, when it is looked at for the first time. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cloud.gateway.api_key import read_key
from cloud.gateway.budget import Budgets, CallerLimits
from cloud.gateway.caller import Caller
from cloud.gateway.jwks import KeySet
from cloud.gateway.key_file import KeyLine
from cloud.gateway.rates import parse_rates
from cloud.gateway.refusals import Reason, Untrusted
from cloud.gateway.roles import granted
from cloud.gateway.token import TokenRules, verify

_UNKNOWN = "this API key is not known here; ask the operator for a new one"


@dataclass(frozen=True, slots=True)
class Now:
    """One moment by two clocks: the caller's own monotonic one, and Unix time."""

    monotonic: float
    unix: float


@dataclass(frozen=True, slots=True)
class Admission:
    """What is common to all who come in."""

    budgets: Budgets
    limits: CallerLimits  # of those whose key says nothing else
    seen_s_max: float

    def by_key(self, text: str, keys: Mapping[str, KeyLine], now: Now) -> Caller:
        """Give the caller of an API key; raises `Untrusted`."""
        key = read_key(text)
        line = keys.get(key.id)
        # an id is no secret, so the time that an unknown one takes may tell that it is unknown
        if line is None:
            raise Untrusted(Reason.UNKNOWN_KEY, _UNKNOWN)
        if not key.matches(line.digest):
            raise Untrusted(Reason.FORGED_KEY, _UNKNOWN)
        if line.is_expired(datetime.fromtimestamp(now.unix, UTC)):
            raise Untrusted(Reason.EXPIRED_KEY, "this API key has expired; ask for a new one")
        rates = self.limits.rates if line.rate is None else parse_rates(line.rate)
        limits = CallerLimits(
            rates,
            line.body_bytes_max or self.limits.body_bytes_max,
            line.in_hand_max or self.limits.in_hand_max,
        )
        identity = f"key/{key.id}"
        return Caller(
            name=line.name,
            identity=identity,
            roles=granted(line.roles),
            budget=self.budgets.of(identity, limits, now.monotonic),
            until=self._until(None if line.expires is None else line.expires.timestamp(), now),
        )

    def by_token(
        self, text: str, keys: KeySet, rules: TokenRules, revoked: frozenset[str], now: Now
    ) -> Caller:
        """Give the caller of a JSON Web Token; raises `Untrusted` as `verify` does."""
        found = verify(text, keys, rules, revoked, now.unix)
        who = hashlib.sha256(f"{found.issuer}\0{found.subject}".encode()).hexdigest()
        identity = f"token/{who[:32]}"
        return Caller(
            name=found.subject,
            identity=identity,
            roles=granted(found.roles),
            budget=self.budgets.of(identity, self.limits, now.monotonic),
            until=self._until(found.ends, now),
        )

    def _until(self, ends_unix: float | None, now: Now) -> float:
        left_s = self.seen_s_max if ends_unix is None else ends_unix - now.unix
        return now.monotonic + min(self.seen_s_max, left_s)
