"""The shell against a transport in the test's hand: one write a turn, and backpressure."""

import asyncio
from collections.abc import Callable

import pytest

from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode
from cloud.broker.codec.parser import Parser
from cloud.broker.limits import Limits
from cloud.broker.shell.peer import Peer
from cloud.broker.shell.server import Server

LIMITS = Limits(control_bytes_max=100, write_buffer_bytes=1_000)


class FakeTransport(asyncio.Transport):
    """Keeps what is written; the test says when the socket is full."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_reading_paused = False
        self.is_closed = False
        self.has_written_eof = False

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_written_eof = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        del low
        assert high == LIMITS.write_buffer_bytes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def writelines(self, list_of_data: object) -> None:
        assert isinstance(list_of_data, list)
        self.written.append(b"".join(list_of_data))

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def packets(self) -> list[p.Packet]:
        data, self.written = b"".join(self.written), []
        return list(Parser(1 << 20, p.Version.V5).feed(data))


def join(server: Server, client_id: str, *packets: p.Packet) -> tuple[Peer, FakeTransport]:
    peer, transport = Peer(server), FakeTransport()
    peer.connection_made(transport)
    peer.data_received(b"".join(map(encode, (p.Connect(client_id), *packets))))
    return peer, transport


async def turn() -> None:
    """One turn of the loop, and the flush that it ends with."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def on_a_server(check: Callable[[Server], object]) -> None:
    async def run() -> None:
        server = Server(LIMITS)
        await check(server)  # type: ignore[misc]  # a coroutine function
        for peer in list(server.peers):
            peer.connection_lost(None)
        await turn()

    asyncio.run(run())


def test_one_turn_is_one_write() -> None:
    async def check(server: Server) -> None:
        _, transport = join(server, "c", *[p.Pingreq()] * 3)
        assert not transport.written
        await turn()
        assert len(transport.written) == 1
        assert len(transport.packets()) == 4

    on_a_server(check)


def test_messages_wait_in_the_session_while_the_socket_is_full() -> None:
    async def check(server: Server) -> None:
        peer, transport = join(server, "c", p.Subscribe(1, (p.Subscription("t", 1),)))
        await turn()
        transport.packets()
        peer.pause_writing()
        join(server, "p", p.Publish("t", b"x", 1, packet_id=1))
        await turn()
        assert not transport.written
        assert server.router.sessions["c"].pending == 1
        peer.resume_writing()
        await turn()
        assert len(transport.packets()) == 1

    on_a_server(check)


def test_about_one_buffer_is_written_at_a_time() -> None:
    async def check(server: Server) -> None:
        _, transport = join(server, "c", p.Subscribe(1, (p.Subscription("t", 0),)))
        await turn()
        transport.packets()
        join(server, "p", *[p.Publish("t", bytes(400))] * 4)
        await turn()
        assert 1 < len(transport.written) <= 3
        await turn()
        assert len(transport.packets()) == 4

    on_a_server(check)


def test_a_client_that_never_reads_is_not_read_either() -> None:
    async def check(server: Server) -> None:
        peer, transport = join(server, "c")
        await turn()
        peer.pause_writing()
        peer.data_received(encode(p.Pingreq()) * 50)
        await turn()
        assert not transport.is_reading_paused
        peer.data_received(encode(p.Pingreq()))
        await turn()
        assert transport.is_reading_paused
        peer.resume_writing()
        await turn()
        assert not transport.is_reading_paused
        assert transport.packets()[1:] == [p.Pingresp()] * 51

    on_a_server(check)


def test_a_connection_with_much_to_do_lets_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check(server: Server) -> None:
        monkeypatch.setattr("cloud.broker.shell.peer.TURN_S", -1.0)  # one packet a turn
        busy, transport = join(server, "busy")
        _, other = join(server, "other", p.Subscribe(1, (p.Subscription("t"),)))
        await turn()
        busy.data_received(b"".join(encode(p.Publish("t", bytes((n,)))) for n in range(9)))
        busy.data_received(encode(p.Publish("t", b"\x09")) + encode(p.Pingreq()))
        assert transport.is_reading_paused
        other.packets()
        seen: list[int] = []
        for _ in range(30):
            await asyncio.sleep(0)
            new = [one.payload[0] for one in other.packets() if isinstance(one, p.Publish)]
            assert len(new) <= 1, "a turn for others after each"
            seen += new
        assert seen == list(range(10))
        assert not transport.is_reading_paused
        assert transport.packets()[1:] == [p.Pingresp()]

    on_a_server(check)


def test_nothing_is_read_or_written_after_a_broken_rule() -> None:
    async def check(server: Server) -> None:
        peer, transport = join(server, "c", p.Connect("c"), p.Pingreq())
        peer.data_received(encode(p.Pingreq()))
        await turn()
        (goodbye,) = transport.packets()[1:]
        assert isinstance(goodbye, p.Disconnect)
        assert goodbye.reason == 0x82
        assert transport.has_written_eof
        assert not transport.is_closed, "a reset would take the good-bye from who has not read it"
        peer.data_received(encode(p.Pingreq()))
        await turn()
        assert transport.packets() == []
        peer.connection_lost(None)
        assert not server.peers

    on_a_server(check)


def test_who_does_not_close_after_a_good_bye_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(server: Server) -> None:
        _, transport = join(server, "c", p.Connect("c"))
        monkeypatch.setattr("cloud.broker.shell.peer.LINGER_S", 0.0)
        await turn()
        await turn()
        assert transport.is_closed

    on_a_server(check)


def test_the_same_fault_of_many_clients_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def check(server: Server) -> None:
        for faulty in (b"\x00garbage", b"\x00garbage", b"\xf0\x00"):
            peer, transport = Peer(server), FakeTransport()
            peer.connection_made(transport)
            peer.data_received(faulty)
            await turn()
            assert transport.is_closed
            peer.connection_lost(None)

    on_a_server(check)
    assert [record.message for record in caplog.records] == ["connection_closed"]
    assert "reason 0x" in vars(caplog.records[0])["why"]
