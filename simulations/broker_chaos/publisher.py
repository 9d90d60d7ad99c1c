"""A publisher that keeps to section 4.4: what was not acknowledged is sent again, in order."""

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Final

from cloud.broker.codec import packets as p
from simulations.broker_chaos.journal import Event, Journal, Saw, now
from simulations.broker_chaos.link import Gone, Link
from simulations.broker_chaos.plan import Plan, PublisherRole

LIFETIME_S: Final = 8.0
"""Mean length of a connection."""
CALM_LIFETIME_S: Final = 10.0
"""Of a connection once the storm is over: what is outstanding needs milliseconds."""
ANSWER_NS_MAX: Final = 9_000_000_000
"""For an acknowledgement, while the connection lasts; a disk and a machine that are busy."""


@dataclass(slots=True)
class Outgoing:
    """A message on its way; `reason` is PUBREC's once that came."""

    packet: p.Publish
    message: str
    reason: int | None = None
    asked_at: int = 0
    """When it was last sent, PUBREL included."""


class Publisher:
    """Publishes until told to stop, then until all is acknowledged."""

    def __init__(self, plan: Plan, role: PublisherRole, journal: Journal) -> None:
        """Prepare; nothing happens before `run`."""
        self._plan, self._role, self._journal = plan, role, journal
        self._rng = Random(f"{plan.seed}/{role.client_id}")
        self._outstanding: dict[int, Outgoing] = {}
        self._count = 0
        self._packet_id = 0
        self._has_session = False
        self.stop = asyncio.Event()

    async def run(self) -> None:
        """Publish over one connection after another."""
        rng = self._rng
        while not self.stop.is_set() or self._outstanding:
            try:
                link = await Link.open(
                    self._plan, self._role.client_id, self._role.client_id,
                    version=self._role.version,
                )  # fmt: skip
            except Gone:
                await asyncio.sleep(rng.uniform(0.05, 0.3))
                continue
            self._note_session(link)
            try:
                async with asyncio.timeout(self._lifetime_s()):
                    await self._resume(link)
                    await self._talk(link)
            except (Gone, TimeoutError):
                pass
            finally:
                self._note_silence()
                await (link.leave() if rng.random() < 0.2 else link.cut())

    def _note_silence(self) -> None:
        role, at = self._role, now()
        for one in self._outstanding.values():
            if at - one.asked_at > ANSWER_NS_MAX:
                silent = Event(Saw.SILENT, at, role.client_id, one.message, role.topic)
                self._journal.write(silent)

    def _lifetime_s(self) -> float:
        if self.stop.is_set():
            return CALM_LIFETIME_S
        return self._rng.expovariate(self._plan.pace / LIFETIME_S) + 0.2

    def _note_session(self, link: Link) -> None:
        role = self._role
        self._journal.write(
            Event(Saw.CONNECTED, now(), role.client_id, code=int(link.session_present),
                  detail=role.client_id)
        )  # fmt: skip
        if self._has_session and not link.session_present and role.qos == 2:
            for one in self._outstanding.values():
                lost = Event(Saw.ABANDONED, now(), role.client_id, one.message, role.topic)
                self._journal.write(lost)
            self._outstanding.clear()
        self._has_session = True

    async def _resume(self, link: Link) -> None:
        for packet_id, one in self._outstanding.items():
            one.asked_at = now()
            if one.reason is not None:
                await link.send(p.Pubrel(packet_id))
            else:
                packet = one.packet
                await link.send(p.Publish(
                    packet.topic, packet.payload, packet.qos, packet.retain, link.session_present,
                    packet_id,
                ))  # fmt: skip

    async def _talk(self, link: Link) -> None:
        """Send and hear until the connection ends, or all is said and acknowledged."""
        both = {asyncio.create_task(self._hear(link)), asyncio.create_task(self._say(link))}
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
        for task in done:
            task.result()

    async def _say(self, link: Link) -> None:
        rng, role = self._rng, self._role
        while True:
            if self.stop.is_set() and not self._outstanding:
                return
            room = role.window - len(self._outstanding)
            if room > 0 and not self.stop.is_set():
                await link.send(*(self._next() for _ in range(rng.randint(1, min(room, 8)))))
            if self.stop.is_set():
                await asyncio.sleep(0.05)
            else:
                await asyncio.sleep(rng.expovariate(self._plan.rate_per_s / 4))

    def _next(self) -> p.Publish:
        role = self._role
        self._count += 1
        message = f"{role.client_id}/{self._count}"
        self._packet_id = self._packet_id % 65_535 + 1
        while self._packet_id in self._outstanding:
            self._packet_id = self._packet_id % 65_535 + 1
        payload = f"{message} ".encode().ljust(role.payload_bytes, b".")
        packet = p.Publish(
            role.topic, payload, role.qos, role.retain, packet_id=self._packet_id
        )  # fmt: skip
        self._outstanding[self._packet_id] = Outgoing(packet, message, asked_at=now())
        detail = "retain" if role.retain else ""
        self._journal.write(
            Event(Saw.SENT, now(), role.client_id, message, role.topic, role.qos, self._packet_id,
                  detail)
        )  # fmt: skip
        return packet

    async def _hear(self, link: Link) -> None:
        while True:
            for packet in await link.read():
                match packet:
                    case p.Puback(packet_id, reason):
                        self._done(packet_id, reason)
                    case p.Pubrec(packet_id, reason) if reason >= 0x80:
                        self._done(packet_id, reason)
                    case p.Pubrec(packet_id, reason):
                        if packet_id in self._outstanding:
                            self._outstanding[packet_id].reason = reason
                            self._outstanding[packet_id].asked_at = now()
                        await link.send(p.Pubrel(packet_id))
                    case p.Pubcomp(packet_id):
                        one = self._outstanding.get(packet_id)
                        if one is not None and one.reason is not None:
                            self._done(packet_id, one.reason)
                    case _:
                        pass

    def _done(self, packet_id: int, reason: int) -> None:
        one = self._outstanding.pop(packet_id, None)
        if one is not None:
            role = self._role
            self._journal.write(
                Event(Saw.ACKED, now(), role.client_id, one.message, role.topic, reason, packet_id)
            )
