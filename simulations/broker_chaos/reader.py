"""A subscriber whose session outlives its connections, its process and the broker."""

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Final

from cloud.broker.codec import packets as p
from simulations.broker_chaos.journal import Event, Journal, Saw, message_of, now
from simulations.broker_chaos.link import Gone, Link
from simulations.broker_chaos.plan import Plan, ReaderRole

LIFETIME_S: Final = 10.0
"""Mean length of a connection."""
STALL_S: Final = 3.0
"""Longest time for which it stops to read; a slow reader always does, for this long in the mean."""
HELD_MAX: Final = 50
"""Messages a share member keeps unacknowledged, to die with them or to acknowledge all at once."""


class Reader:
    """Reads for ever; its journal is also its memory when its process was killed."""

    def __init__(
        self, plan: Plan, role: ReaderRole, journal: Journal, before: Iterable[Event]
    ) -> None:
        """Remember what an earlier process knew."""
        self._plan, self._role, self._journal = plan, role, journal
        self._rng = Random(f"{plan.seed}/{role.client_id}/{now()}")
        self._qos_2: set[int] = set()
        self._is_subscribed = False
        for event in before:
            if event.client == role.client_id:
                self._recall(event)
        self._held: list[p.Publish] = []
        self._link: Link | None = None
        self.calm = asyncio.Event()
        self.ready = asyncio.Event()
        if self._is_subscribed:
            self.ready.set()

    def _recall(self, event: Event) -> None:
        if event.saw is Saw.RECEIVED and event.code == 2:
            self._qos_2.add(event.packet_id)
        elif event.saw is Saw.RELEASED:
            self._qos_2.discard(event.packet_id)
        elif event.saw is Saw.CONNECTED and not event.code:
            self._qos_2.clear()
            self._is_subscribed = False
        elif event.saw is Saw.SUBSCRIBED:
            self._is_subscribed = True

    async def run(self) -> None:
        """Read over one connection after another."""
        link: Link | None = None
        while True:
            older, link = link, None
            try:
                link = await self._open()
            except Gone:
                await asyncio.sleep(self._rng.uniform(0.05, 0.3))
            finally:
                if older is not None:  # taken over just now, or cut
                    await older.cut()
            if link is None:
                continue
            try:
                async with asyncio.timeout(self._lifetime_s()):
                    await self._subscribe(link)
                    await self._read(link)
            except TimeoutError:
                if self._rng.random() < 0.3:
                    self._held.clear()
                    continue  # keeps the connection, which the next one takes over
            except Gone:
                pass
            except BaseException:
                await link.cut()
                raise
            self._held.clear()
            await (link.leave() if self._rng.random() < 0.2 else link.cut())
            link = None

    async def calm_down(self) -> None:
        """Break no more connections, come back and acknowledge everything."""
        self.calm.set()
        if self._link is not None:
            await self._link.cut()

    async def _open(self) -> Link:
        role = self._role
        link = await Link.open(self._plan, role.client_id, role.user, version=role.version)
        connected = Event(
            Saw.CONNECTED, now(), role.client_id, code=int(link.session_present), detail=role.user
        )
        self._journal.write(connected)
        self._recall(connected)
        self._link = link
        return link

    def _lifetime_s(self) -> float | None:
        if self.calm.is_set():
            return None
        return self._rng.expovariate(self._plan.pace / LIFETIME_S) + 0.2

    async def _subscribe(self, link: Link) -> None:
        if self._is_subscribed:
            return
        role, at = self._role, now()
        wanted = tuple(p.Subscription(each, qos) for each, qos in role.filters)  # type: ignore[arg-type]  # 1 or 2
        await link.send(p.Subscribe(1, wanted))
        while True:
            for packet in await link.read():
                if isinstance(packet, p.Suback):
                    self._journal.write(*(
                        Event(Saw.SUBSCRIBED, at, role.client_id, topic=each, code=reason)
                        for (each, _), reason in zip(role.filters, packet.reasons, strict=True)
                    ))  # fmt: skip
                    self._is_subscribed = True
                    self.ready.set()
                    return
                await self._take(link, [packet])

    async def _read(self, link: Link) -> None:
        rng, role = self._rng, self._role
        while True:
            await self._take(link, await link.read(20 if role.is_slow else 1 << 20))
            if self.calm.is_set():
                continue
            if role.is_slow:
                await asyncio.sleep(rng.expovariate(self._plan.pace / STALL_S))
            elif rng.random() < 0.003:
                await asyncio.sleep(rng.uniform(0, STALL_S))

    async def _take(self, link: Link, packets: list[p.Packet]) -> None:
        """Write down, then answer."""
        events: list[Event] = []
        answers: list[p.Packet] = []
        for packet in packets:
            match packet:
                case p.Publish(qos=2, packet_id=packet_id):
                    if packet_id not in self._qos_2:
                        self._qos_2.add(packet_id)
                        events.append(self._received(packet))
                    answers.append(p.Pubrec(packet_id))
                case p.Publish(qos=1) if self._holds_back():
                    self._held.append(packet)
                    if len(self._held) == HELD_MAX:
                        await self._let_go(link)
                case p.Publish(qos=qos, packet_id=packet_id):
                    events.append(self._received(packet))
                    if qos:
                        answers.append(p.Puback(packet_id))
                case p.Pubrel(packet_id):
                    self._qos_2.discard(packet_id)
                    events.append(Event(
                        Saw.RELEASED, now(), self._role.client_id, packet_id=packet_id
                    ))  # fmt: skip
                    answers.append(p.Pubcomp(packet_id))
                case _:
                    pass
        if events:
            self._journal.write(*events)
        if answers:
            await link.send(*answers)

    def _holds_back(self) -> bool:
        if not self._role.may_hold_back or self.calm.is_set():
            return False
        return bool(self._held) or self._rng.random() < 0.02

    async def _let_go(self, link: Link) -> None:
        held, self._held = self._held, []
        if held:
            self._journal.write(*map(self._received, held))
            await link.send(*(p.Puback(one.packet_id) for one in held))

    def _received(self, packet: p.Publish) -> Event:
        message = message_of(packet.payload)
        return Event(
            Saw.RECEIVED, now(), self._role.client_id, message, packet.topic, packet.qos,
            packet.packet_id, "retain" if packet.retain else "",
        )  # fmt: skip
