"""Clients that come and go beside the durable ones: readers of a moment, wills, intruders, noise."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from cloud.broker.codec import packets as p
from simulations.broker_chaos.journal import Event, Journal, Saw, message_of, now
from simulations.broker_chaos.link import Gone, Link
from simulations.broker_chaos.plan import Plan
from simulations.broker_fuzz import grammar
from simulations.broker_fuzz.client import ClientView
from simulations.broker_fuzz.mutations import MUTATIONS

STAY_S: Final = 1.5
"""Mean length of a visit."""
PAUSE_S: Final = 0.4
FORBIDDEN: Final = (
    "#", "up/#", "up/p0/q1", "$share/thieves/up/#", "$share/g/up/+/q1", "+/+/+", "state/s0", "$SYS/#",
)  # fmt: skip
TWINS: Final = 2
"""Guests who share a client identifier and take it from each other."""


class Guests:
    """All of them, each a task that visits again and again."""

    def __init__(self, plan: Plan, journal: Journal) -> None:
        """Prepare; nothing happens before `run`."""
        self._plan, self._journal = plan, journal
        self._count = 0
        self._start = now()

    async def run(self) -> None:
        """Visit until cancelled."""
        visits: list[Callable[[Random, int], Awaitable[None]]] = [
            *[self._look] * 3, *[self._twin] * TWINS, *[self._doomed] * 2, *[self._noise] * 2,
        ]  # fmt: skip
        if self._plan.acl:
            visits += [self._intrude, self._intrude_311]
        async with asyncio.TaskGroup() as all_of_them:
            for number, visit in enumerate(visits):
                all_of_them.create_task(self._again(visit, number))

    async def read_once(self, client_id: str, user: str) -> None:
        """Read retained values until cancelled."""
        link = await Link.open(self._plan, client_id, user, durable=False)
        try:
            await self._read(link, client_id, user, ("state/#",))
        finally:
            await link.cut()

    async def _again(self, visit: Callable[[Random, int], Awaitable[None]], number: int) -> None:
        rng = Random(f"{self._plan.seed}/guest/{number}")
        while True:
            self._count += 1
            with contextlib.suppress(Gone):
                await visit(rng, self._count)
            await asyncio.sleep(rng.expovariate(self._plan.pace / PAUSE_S))

    async def _look(self, rng: Random, count: int) -> None:
        """Read retained values for a while."""
        await self._visit(rng, f"guest-{self._start}-{count}")

    async def _twin(self, rng: Random, _: int) -> None:
        """The same under a name that another has too."""
        await self._visit(rng, "twin")

    async def _visit(self, rng: Random, client_id: str) -> None:
        link = await Link.open(
            self._plan, client_id, "guest", version=rng.choice((4, 5)), durable=False
        )
        try:
            async with asyncio.timeout(rng.expovariate(1 / STAY_S) + 0.1):
                await self._read(link, client_id, "guest", ("state/#", "open/#"))
        except TimeoutError:
            pass
        finally:
            await (link.leave() if rng.random() < 0.5 else link.cut())

    async def _read(self, link: Link, client_id: str, user: str, filters: tuple[str, ...]) -> None:
        """Subscribe to each filter and write down all that comes, until the link ends."""
        self._journal.write(Event(Saw.CONNECTED, now(), client_id, detail=user))
        asked: dict[int, tuple[str, int]] = {}
        for packet_id, each in enumerate(filters, 1):
            asked[packet_id] = each, now()
            await link.send(p.Subscribe(packet_id, (p.Subscription(each, 1),)))
        while True:
            for packet in await link.read():
                match packet:
                    case p.Suback(packet_id, reasons):
                        each, at = asked[packet_id]
                        self._journal.write(
                            Event(Saw.SUBSCRIBED, at, client_id, topic=each, code=reasons[0])
                        )
                    case p.Publish():
                        await self._note(link, client_id, packet)
                    case p.Puback(packet_id, reason) | p.Pubrec(packet_id, reason):
                        message = f"evil/{client_id}"
                        self._journal.write(
                            Event(Saw.ACKED, now(), client_id, message, "", reason, packet_id)
                        )
                    case _:
                        pass

    async def _note(self, link: Link, client_id: str, packet: p.Publish) -> None:
        message = message_of(packet.payload)
        detail = "retain" if packet.retain else ""
        self._journal.write(
            Event(Saw.RECEIVED, now(), client_id, message, packet.topic, packet.qos,
                  packet.packet_id, detail)
        )  # fmt: skip
        if packet.qos:
            await link.send(p.Puback(packet.packet_id))

    async def _doomed(self, rng: Random, count: int) -> None:
        """Die with a will, or leave in good order, which takes the will along."""
        client_id = f"doomed-{self._start}-{count}"
        message, topic = f"will-{client_id}", f"wills/{client_id}"
        will = p.Will(topic, f"{message} ".encode(), 1)
        link = await Link.open(
            self._plan, client_id, "guest", version=rng.choice((4, 5)), durable=False, will=will
        )
        how = "unknown"
        try:
            async with asyncio.timeout(rng.expovariate(1 / STAY_S)):
                await link.read()
        except TimeoutError:
            how = ("clean" if await link.leave() else "unknown") if rng.random() < 0.5 else "broken"
        finally:
            await link.cut()
            self._journal.write(Event(Saw.WILL, now(), client_id, message, topic, detail=how))

    async def _noise(self, rng: Random, count: int) -> None:
        """Break the protocol, after CONNECT or before."""
        link = await Link.open(self._plan, f"noise-{count}", "noise", durable=False)
        view = ClientView(is_connected=True, receive_maximum=10, alias_maximum=8)
        broken: bytes | None = None
        while broken is None:
            mutation = rng.choice(MUTATIONS)
            broken = mutation.make(grammar.any_packet(rng, view), rng, view)
        try:
            async with asyncio.timeout(5):
                if rng.random() < 0.2:
                    broken = b"\x32\xff\xff\xff\x7f" + bytes(1_000_000)  # 256 MB announced
                await link.send_bytes(broken)
                while True:
                    await link.read()
        except TimeoutError:
            pass
        finally:
            await link.cut()

    async def _intrude(self, rng: Random, count: int) -> None:
        """Ask for what the ACL refuses."""
        await self._intruder(rng, f"intruder-{self._start}-{count}", 5)

    async def _intrude_311(self, rng: Random, count: int) -> None:
        """The same over 3.1.1."""
        await self._intruder(rng, f"intruder-{self._start}-{count}", 4)

    async def _intruder(self, rng: Random, client_id: str, version: int) -> None:
        link = await Link.open(self._plan, client_id, "intruder", version=version, durable=False)
        payload = f"evil/{client_id} ".encode()
        try:
            async with asyncio.timeout(rng.expovariate(1 / STAY_S) + 0.3):
                reading = asyncio.create_task(
                    self._read(link, client_id, "intruder", (*FORBIDDEN, "open/#"))
                )
                try:
                    await asyncio.sleep(0.2)
                    for number, topic in enumerate(("up/p0/q1", "up/p2/q2", "state/s0", "wills/x")):
                        qos = rng.choice((0, 1, 2))
                        packet_id = 100 + number if qos else 0
                        retain = topic.startswith("state")
                        await link.send(
                            p.Publish(topic, payload, qos, retain, packet_id=packet_id)  # type: ignore[arg-type]  # 0, 1 or 2
                        )
                    await reading
                finally:
                    reading.cancel()
                    await asyncio.gather(reading, return_exceptions=True)
        except TimeoutError:
            pass
        finally:
            await link.cut()
