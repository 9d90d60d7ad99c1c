"""Raw connections of the load: a publisher with a window, a subscriber that acknowledges."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar, cast

from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode
from cloud.broker.codec.parser import Parser
from cloud.broker.codec.properties import PropertyId
from simulations.broker_bench.loads import Broker
from simulations.broker_bench.wire import Ring, Shape, acknowledged, pubacks_for

READ_BYTES: Final = 1_048_576
"""What one read may bring: several of the biggest messages."""
TIMEOUT_S: Final = 20.0
CONNECTS_AT_ONCE: Final = 100
_PINGRESP: Final = encode(p.Pingresp())


T = TypeVar("T", bound="Handshaken")


class Handshaken(asyncio.BufferedProtocol):
    """A connection that has done CONNECT and, with a filter, SUBSCRIBE once `ready` is set."""

    def __init__(
        self, client_id: str, topic_filter: str | None, expiry_s: int, read_bytes: int
    ) -> None:
        """Wait for the transport; `expiry_s` over 0 asks for a session that outlives it."""
        found = ((PropertyId.SESSION_EXPIRY_INTERVAL, expiry_s),) if expiry_s else ()
        self._connect = p.Connect(client_id, clean_start=True, properties=found)
        self._filter = topic_filter
        self._parser: Parser | None = Parser(1_048_576, p.Version.V5)
        self._buffer = bytearray(read_bytes)
        self._view = memoryview(self._buffer)
        self._held = 0
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_leaving = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send CONNECT."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(encode(self._connect))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the run unless it is over: a broker that closes is no result."""
        if self.is_leaving:
            return
        lost = ConnectionError(f"{self._connect.client_id}: the broker closed ({exc})")
        if not self.ready.done():
            self.ready.set_exception(lost)
        else:
            raise lost

    def get_buffer(self, sizehint: int) -> memoryview:
        """Read behind what is held."""
        del sizehint
        return self._view[self._held :]

    def buffer_updated(self, nbytes: int) -> None:
        """Hand what came to the handshake, then to the load."""
        end = self._held + nbytes
        if self._parser is None:
            self._held = end
            self.received(end)
            return
        for packet in self._parser.feed(bytes(self._view[:end])):
            match packet:
                case p.Connack(reason=0):
                    if self._filter is not None:
                        one = p.Subscription(self._filter, 1)
                        self.transport.write(encode(p.Subscribe(1, (one,))))
                        continue
                case p.Suback(reasons=(1,)):
                    pass
                case _:
                    raise ConnectionError(f"{self._connect.client_id}: {packet}")
            self._parser = None
            self.ready.set_result(None)
            return

    def keep_from(self, used: int, end: int) -> None:
        """Move what is not used yet to the front."""
        rest = end - used
        if rest and used:
            self._buffer[:rest] = self._view[used:end]
        self._held = rest

    def received(self, end: int) -> None:
        """Act on the first `end` bytes of the buffer."""
        raise NotImplementedError

    def leave(self) -> None:
        """Send DISCONNECT and close."""
        self.is_leaving = True
        self.transport.write(encode(p.Disconnect()))
        self.transport.close()

    def abort(self) -> None:
        """Close without another word."""
        self.is_leaving = True
        self.transport.abort()


class Subscriber(Handshaken):
    """Counts and acknowledges; `on_messages` hears how many came."""

    def __init__(
        self, client_id: str, topic_filter: str, shape: Shape, on_messages: Callable[[int], None],
        expiry_s: int = 0,
    ) -> None:  # fmt: skip
        """Expect only messages of that shape."""
        super().__init__(client_id, topic_filter, expiry_s, READ_BYTES)
        self._shape = shape
        self._on_messages = on_messages
        self.delivered = 0

    def received(self, end: int) -> None:
        """Acknowledge whole messages by their stride."""
        count = end // self._shape.packet_bytes
        if not count:
            return
        self.transport.write(pubacks_for(self._buffer, count, self._shape))
        self.delivered += count
        self.keep_from(count * self._shape.packet_bytes, end)
        self._on_messages(count)


class Gate:
    """Bounds what is published and not delivered yet, so that no broker's queue overruns."""

    def __init__(self, undelivered_max: int) -> None:
        """Open it for so many messages."""
        self.room = undelivered_max
        self.is_open = True
        self.published = self.refused = self.unacknowledged = 0
        self.settled = asyncio.Event()
        """Set while nothing is unacknowledged."""
        self._parked: deque[Publisher] = deque()

    def enter(self, publisher: "Publisher", wanted: int) -> int:
        """Give how many may go out now; a publisher that got less goes on later by itself."""
        count = min(wanted, self.room) if self.is_open else 0
        if count < wanted and not publisher.is_parked:
            publisher.is_parked = True
            self._parked.append(publisher)
        if count:
            self.room -= count
            self.published += count
            self.unacknowledged += count
            self.settled.clear()
        return count

    def acknowledge(self, count: int, refused: int) -> None:
        """Note PUBACK packets; what was refused will not be delivered."""
        self.unacknowledged -= count
        if not self.unacknowledged:
            self.settled.set()
        if refused:
            self.refused += refused
            self.leave(refused)

    def leave(self, count: int) -> None:
        """Note messages that no broker holds any longer."""
        self.room += count
        while self._parked and self.room > 0 and self.is_open:
            publisher = self._parked.popleft()
            publisher.is_parked = False
            publisher.publish()


class Publisher(Handshaken):
    """Keeps a window of unacknowledged messages full, as far as the gate lets it."""

    def __init__(self, client_id: str, ring: Ring, gate: Gate) -> None:
        """Publish the ring's packets."""
        super().__init__(client_id, None, 0, 4_096)
        self._ring = ring
        self._gate = gate
        self._unacknowledged = 0
        self.is_parked = False

    def publish(self) -> None:
        """Fill the window."""
        wanted = self._ring.window - self._unacknowledged
        if wanted:
            count = self._gate.enter(self, wanted)
            if count:
                self._unacknowledged += count
                self.transport.writelines(self._ring.take(count))

    def received(self, end: int) -> None:
        """Count acknowledgements and go on."""
        seen = acknowledged(bytes(self._view[:end]))
        self.keep_from(seen.used_bytes, end)
        self._unacknowledged -= seen.count
        self._gate.acknowledge(seen.count, seen.refused)
        self.publish()


class Idler(Handshaken):
    """Does nothing but answer for itself; `on_answer` hears of each PINGRESP."""

    def __init__(self, client_id: str, on_answer: Callable[[], None]) -> None:
        """Hold no more memory than a header needs."""
        super().__init__(client_id, None, 0, 256)
        self._on_answer = on_answer

    def ping(self) -> None:
        """Send PINGREQ."""
        self.transport.write(encode(p.Pingreq()))

    def received(self, end: int) -> None:
        """Take the PINGRESP."""
        if bytes(self._view[:end]) != _PINGRESP:
            raise ConnectionError(f"not a PINGRESP: {bytes(self._view[:end])!r}")
        self.keep_from(end, end)
        self._on_answer()


async def connect_all(broker: Broker, count: int, make: Callable[[int], T]) -> list[T]:
    """Open connections, `CONNECTS_AT_ONCE` at a time, and wait for their handshakes."""
    loop = asyncio.get_running_loop()

    async def one(index: int) -> T:
        _, protocol = await loop.create_connection(lambda: make(index), broker.host, broker.port)
        await protocol.ready
        return protocol

    found: list[T] = []
    for at in range(0, count, CONNECTS_AT_ONCE):
        async with asyncio.timeout(TIMEOUT_S):
            some = range(at, min(count, at + CONNECTS_AT_ONCE))
            found += await asyncio.gather(*map(one, some))
    return found
