"""How one client comes in: the rate of CONNECTs, who it is, and a password checked off the loop."""

import asyncio
import functools
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from cloud.broker.access.gate import Admission, Gate, PasswordCheck
from cloud.broker.access.revocations import CertificateId
from cloud.broker.codec import packets as p
from cloud.broker.codec.reasons import BrokenRule, ReasonCode
from cloud.broker.connection.connection import Connection
from shared.token_bucket import TokenBucket

CHECKS_MAX: Final = 256
"""Passwords that wait to be checked, over all connections; one takes 40 ms of a core."""
CHECKS_MAX_A_HOST: Final = 64
"""The same of one host, so that one that guesses leaves room for others."""


class House(Protocol):
    """What a door needs of its server."""

    loop: asyncio.AbstractEventLoop
    gate: Gate
    connects: TokenBucket
    hashing: ThreadPoolExecutor
    checks: Counter[str]
    """Passwords that wait to be checked, by the client's host."""


class Door:
    """Of one network connection."""

    def __init__(
        self,
        house: House,
        connection: Connection,
        *,
        host: str,
        certificate_name: str | None,
        certificate: CertificateId | None,
        owner_only: bool,
        on_checked: Callable[[BrokenRule | None], None],
    ) -> None:
        """Wait for a CONNECT; `on_checked` is called when a password was, with what was wrong.

        `owner_only`: the way in for the process that launched the broker, and for nobody else.
        """
        self._house, self._connection, self._host = house, connection, host
        self.certificate_name, self.certificate = certificate_name, certificate
        self._on_checked = on_checked
        self._owner_only = owner_only
        self.asked: p.Connect | None = None
        """Who wanted to come in, by its own words: for the log."""
        self._held: list[p.Packet] | None = None

    @property
    def is_checking(self) -> bool:
        """Whether a password is being checked: what comes meanwhile is held."""
        return self._held is not None

    def receive(self, packet: p.Packet, now: float) -> None:
        """Act on what comes before the CONNECT was granted; raises `BrokenRule` as it should."""
        if self._held is not None:
            self._held.append(packet)
        elif isinstance(packet, p.Connect) and self._connection.granted is None:
            self._admit(packet, now)
        else:
            self._connection.receive(packet, now)  # says what is wrong with it

    def _admit(self, packet: p.Connect, now: float) -> None:
        house, connection = self._house, self._connection
        self.asked = packet
        try:
            self._check_rate(now)
            found = house.gate.identify(packet, self.certificate_name, self.certificate)
            if self._owner_only:
                _check_owner(found)
            if isinstance(found, PasswordCheck):
                self._start_check(packet, found)
                return
        except BrokenRule as error:
            connection.refuse(packet, error)
            raise
        connection.admit(packet, found, now)

    def _check_rate(self, now: float) -> None:
        if not self._house.connects.take(now):
            why = "too many CONNECTs in a second; come back later"
            raise BrokenRule(ReasonCode.CONNECTION_RATE_EXCEEDED, why)

    def _start_check(self, packet: p.Connect, check: PasswordCheck) -> None:
        house = self._house
        is_full = house.checks.total() >= CHECKS_MAX
        if is_full or house.checks[self._host] >= CHECKS_MAX_A_HOST:
            raise BrokenRule(ReasonCode.SERVER_BUSY, "too many passwords to check; come back later")
        house.checks[self._host] += 1
        self._held = []
        running = house.loop.run_in_executor(house.hashing, check.run)
        running.add_done_callback(functools.partial(self._checked, packet, house.gate))

    def _checked(self, packet: p.Connect, gate: Gate, done: "asyncio.Future[Admission]") -> None:
        """Go on with what came meanwhile, or say that the password is wrong."""
        house = self._house
        house.checks[self._host] -= 1
        if not house.checks[self._host]:
            del house.checks[self._host]
        held, self._held = self._held or [], None
        if done.cancelled() or self._connection.is_closing:
            return
        wrong: BrokenRule | None = None
        try:
            self._let_in(packet, gate, done)
            now = house.loop.time()
            for waiting in held:
                if self._connection.is_closing:
                    break
                self.receive(waiting, now)
        except BrokenRule as error:
            wrong = error
        self._on_checked(wrong)

    def _let_in(self, packet: p.Connect, gate: Gate, done: "asyncio.Future[Admission]") -> None:
        now = self._house.loop.time()
        try:
            admission = done.result()
        except BrokenRule as error:
            self._connection.refuse(packet, error)
            raise
        if gate is not self._house.gate:  # the files were read anew meanwhile
            self._admit(packet, now)
        else:
            self._connection.admit(packet, admission, now)


def _check_owner(found: Admission | PasswordCheck) -> None:
    if not (isinstance(found, Admission) and found.identity.is_owner):
        raise BrokenRule(ReasonCode.NOT_AUTHORIZED, "this port is for the broker's owner")
