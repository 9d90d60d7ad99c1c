"""The gateway: who a request is from. A dictionary look-up for those who were here before."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import NoReturn

from cloud.gateway.admission import Admission, Now
from cloud.gateway.attempts import Attempts
from cloud.gateway.budget import Budgets
from cloud.gateway.caller import Caller
from cloud.gateway.counts import GatewayCounts
from cloud.gateway.issuer import IssuerUrl
from cloud.gateway.permits import LocalPermits, Permits
from cloud.gateway.refusals import RateLimited, Reason, Untrusted
from cloud.gateway.roles import granted
from cloud.gateway.seen import Seen
from cloud.gateway.settings import GatewaySettings
from cloud.gateway.shared_permits import SharedStorage, open_storage
from cloud.gateway.token import UnknownSigner
from cloud.gateway.trusted import Trusted
from shared.errors import Unavailable
from shared.logs import OncePer

log = logging.getLogger(__name__)

_KEY_PREFIX = "hy_"
_SCHEME = "bearer "
_NEW_KEYS_S = 1.0
"""When to come again while the issuer's keys are being fetched."""
_HOW = "send 'Authorization: Bearer KEY_OR_TOKEN' or 'X-API-Key: KEY'"


class Gateway:
    """`run` keeps keys fresh until `drain`; everything else answers at once, on the event loop.

    `wall` gives Unix time. Raises when a file of the settings is not there or has a mistake.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        counts: GatewayCounts,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._counts, self._wall, self._settings = counts, wall, settings
        self._trusted = Trusted(settings, counts, self._forget)
        budgets = Budgets(_permits(settings, counts), settings.callers_max)
        self._admission = Admission(budgets, settings.limits, settings.seen_s_max)
        self._attempts = Attempts(
            burst=settings.failures_burst, per_s=settings.failures_per_s,
            per_s_total=settings.failures_per_s_total, addresses_max=settings.addresses_max,
        )  # fmt: skip
        self._said = OncePer(settings.log_period_s)
        self._anonymous = Caller(
            "anonymous", "anonymous", granted(settings.anonymous_roles),
            budgets.of("anonymous", settings.limits, 0.0), math.inf,
        ) if settings.lets_anonymous_in else None  # fmt: skip
        self._is_open = self._anonymous is not None and self._trusted.is_nobody
        self._again = asyncio.Event()
        self._parts: list[asyncio.Task[None]] | None = []
        self._forget()

    @property
    def knows_nobody(self) -> bool:
        """Whether all who reach it are let in, and nobody decided that: there are just no keys."""
        return self._is_open and self._settings.allow_anonymous is None

    def admit(
        self, authorization: str | None, api_key: str | None, now: float, address: str | None = None
    ) -> Caller:
        """Give the caller of a request with these headers at `now`, a monotonic time.

        `address` is the other end's, for the bound on failed attempts; those without one share it.

        Raises:
            Untrusted: a `NotTrusted`, with its reason.
            RateLimited: too many attempts from there failed.
            Unavailable: the token issuer's keys are not here (yet).

        """
        if self._is_open:
            assert self._anonymous is not None
            return self._anonymous
        if authorization is not None and api_key is None:
            caller = self._by_header.young.get(authorization)
        elif api_key is not None and authorization is None:
            caller = self._by_key.young.get(api_key)
        elif self._anonymous is not None and authorization is None:
            return self._anonymous
        else:
            caller = None
        if caller is not None and now < caller.until:
            return caller
        return self._admit_anew(authorization, api_key, now, address)

    def read_again(self) -> None:
        """Have `run` read the files again; one with a mistake leaves what was known as it was."""
        self._again.set()

    async def run(self) -> None:
        """Fetch the issuer's keys and read files again when told to, until `drain`."""
        if self._parts is None:
            return
        async with asyncio.TaskGroup() as parts:
            self._parts.append(parts.create_task(self._read_when_told()))
            if isinstance(self._trusted.issuer, IssuerUrl):
                self._parts.append(parts.create_task(self._trusted.issuer.run()))

    def drain(self) -> None:
        """End `run`. What is known stays known: requests in hand are answered."""
        for part in self._parts or ():
            part.cancel()
        self._parts = None

    async def _read_when_told(self) -> None:
        while True:
            await self._again.wait()
            self._again.clear()
            # a big file takes longer than the event loop may
            change = await asyncio.to_thread(self._trusted.read)
            self._trusted.become(change)

    def _forget(self) -> None:
        """Have every credential checked anew: what vouched for it changed."""
        self._by_header = Seen(self._settings.seen_max)
        self._by_key = Seen(self._settings.seen_max)

    def _admit_anew(
        self, authorization: str | None, api_key: str | None, now: float, address: str | None
    ) -> Caller:
        credential = api_key if authorization is None else authorization
        if credential is None:
            self._refuse(Untrusted(Reason.NO_CREDENTIALS, f"who are you? {_HOW}"), now, address)
        seen = self._by_key if authorization is None else self._by_header
        try:
            if authorization is not None and api_key is not None:
                raise Untrusted(Reason.TWO_CREDENTIALS, f"two credentials in one request; {_HOW}")  # noqa: TRY301  counted as those from below
            caller = seen.again(credential, now)
            if caller is None:
                caller = self._check(credential, authorization is not None, now, address)
                seen.add(credential, caller)
        except Untrusted as error:
            self._refuse(error, now, address)
        return caller

    def _check(self, credential: str, is_header: bool, now: float, address: str | None) -> Caller:
        text = credential.strip()
        if is_header:
            if text[: len(_SCHEME)].lower() != _SCHEME:
                raise Untrusted(Reason.WRONG_SCHEME, f"not a Bearer credential; {_HOW}")
            text = text[len(_SCHEME) :].lstrip()
        both = Now(now, self._wall())
        if text.startswith(_KEY_PREFIX) or not is_header:
            caller = self._admission.by_key(text, self._trusted.keys, both)
            self._counts.keys_checked.inc()
            return caller
        tokens, issuer = self._settings.tokens, self._trusted.issuer
        if tokens is None or issuer is None:
            raise Untrusted(Reason.NO_TOKENS_HERE, "no tokens are taken here; use an API key")
        self._refuse_unheard(now, address)  # before, not after: looking at it is what costs
        keys = issuer.keys(now)
        if keys is None:
            issuer.missed(now)
            raise _come_again("the keys of the token issuer are not here yet")
        try:
            caller = self._admission.by_token(text, keys, tokens.rules, self._trusted.revoked, both)
        except UnknownSigner as error:
            if not issuer.missed(now):
                raise
            self._attempts.failed(address, now)
            raise _come_again("this token names a key that is being asked for") from error
        self._counts.tokens_checked.inc()
        return caller

    def _refuse_unheard(self, now: float, address: str | None) -> None:
        if wait_s := self._attempts.blocked_s(address, now):
            self._counts.unheard.inc()
            raise RateLimited("failures", "too many attempts from there failed", wait_s)

    def _refuse(self, error: Untrusted, now: float, address: str | None) -> NoReturn:
        self._counts.refused[error.reason].inc()
        held_back = self._said.admits(error.reason, now)
        if held_back is not None:
            log.warning(
                "caller_refused",
                extra={"reason": error.reason, "address": address, "held_back": held_back},
            )
        if error.reason is not Reason.NO_CREDENTIALS:  # that guesses nothing and costs nothing
            self._refuse_unheard(now, address)
            self._attempts.failed(address, now)
        raise error


def _permits(settings: GatewaySettings, counts: GatewayCounts) -> Callable[[str], Permits]:
    uri = settings.storage.get_secret_value()
    if uri == "memory://":
        return lambda _: LocalPermits()
    return SharedStorage(open_storage(uri), counts.storage_failures.inc).permits


def _come_again(message: str) -> Unavailable:
    return Unavailable(f"{message}; come again", _NEW_KEYS_S)
