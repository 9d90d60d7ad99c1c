"""`python -m cloud.broker` as a real process: start, stop, and clients that misbehave."""

import contextlib
import json
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode
from cloud.broker.codec.packets import Version
from cloud.broker.codec.parser import Parser

TIMEOUT_S = 10.0


class Running:
    """A broker process and where it listens."""

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        self.process, self.port = process, port

    def connect(self, connect: p.Connect | None = None) -> "Wire":
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S)
        return Wire(sock, connect)


class Wire:
    """A client that sends and reads packets when told, and only then."""

    def __init__(self, sock: socket.socket, connect: p.Connect | None) -> None:
        self.sock = sock
        self.parser = Parser(1 << 28, Version.V5)
        self.packets: list[p.Packet] = []
        if connect is not None:
            self.send(connect)
            assert isinstance(self.read(), p.Connack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, packet: p.Packet) -> None:
        self.sock.sendall(encode(packet))

    def read(self) -> p.Packet | None:
        """Give the next packet, or None once the broker has closed."""
        while not self.packets:
            try:
                data = self.sock.recv(65_536)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self.packets += self.parser.feed(data)
        return self.packets.pop(0)


@contextlib.contextmanager
def broker(*options: str, under: tuple[str, ...] = ()) -> Iterator[Running]:
    command = [*under, sys.executable, "-m", "cloud.broker", "--port", "0", *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            assert ready["event"] == "broker_ready"
            yield Running(process, ready["port"])
        finally:
            process.kill()


def test_sigterm_says_good_bye_to_clients() -> None:
    with broker() as running, running.connect(p.Connect("c")) as client:
        running.process.send_signal(signal.SIGTERM)
        assert client.read() == p.Disconnect(0x8B)
        assert client.read() is None
        assert running.process.wait(TIMEOUT_S) == 0


def test_it_ends_with_its_stdin() -> None:
    with broker("--exit-with-stdin") as running:
        assert running.process.stdin is not None
        running.process.stdin.close()
        assert running.process.wait(TIMEOUT_S) == 0


def run(*options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "cloud.broker", *options],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip


def test_a_taken_port_is_refused_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = run("--port", port)
    assert refused.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_settings_that_contradict_each_other_are_refused_in_words() -> None:
    for options in (
        ["--packet-bytes-max", "1000", "--queued-bytes-max", "10"],
        ["--sessions-max", "0"],
        ["--inflight-max", "70000"],
        ["--tls-key", "x"],
        ["--tls-cert", "nowhere.pem"],
    ):
        refused = run("--port", "0", *options)
        assert refused.returncode == 2, options
        assert "Traceback" not in refused.stderr


def test_no_connect_in_time_closes() -> None:
    with broker("--connect-timeout-s", "0.2") as running, running.connect() as silent:
        with running.connect() as slow:
            slow.sock.sendall(b"\x10\x20\x00")
            assert slow.read() is None
        assert silent.read() is None


def test_one_connection_too_many_is_closed() -> None:
    with broker("--connections-max", "1") as running, running.connect(p.Connect("1")) as first:
        with running.connect() as second:
            assert second.read() is None
        first.send(p.Pingreq())
        assert first.read() == p.Pingresp()


def test_a_slow_reader_costs_bounded_memory_and_its_publisher_hears() -> None:
    bounds = ("--packet-bytes-max", "100000", "--queued-bytes-max", "300000")
    with broker(*bounds) as running, running.connect(p.Connect("slow")) as slow:
        slow.send(p.Subscribe(1, (p.Subscription("t", 1),)))
        assert isinstance(slow.read(), p.Suback)
        with running.connect(p.Connect("p")) as publisher:
            reasons = []
            for packet_id in range(1, 301):  # 19 MB, more than the kernel holds for a socket
                publisher.send(p.Publish("t", bytes(64_000), 1, packet_id=packet_id))
                answer = publisher.read()
                assert isinstance(answer, p.Puback)
                reasons.append(answer.reason)
        kept, refused = reasons.count(0), reasons.count(0x97)
        assert kept + refused == 300
        assert refused > 100
        got = 0
        while got < kept:  # every one that was acknowledged comes, and no other
            packet = slow.read()
            assert isinstance(packet, p.Publish)
            slow.send(p.Puback(packet.packet_id))
            got += 1
        slow.send(p.Pingreq())
        assert slow.read() == p.Pingresp()


def openssl(*arguments: str, at: Path) -> None:
    program = shutil.which("openssl")
    assert program is not None, "this test needs openssl: apt-get install openssl"
    subprocess.run([program, *arguments], cwd=at, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("certificates")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
            "-subj", "/CN=test ca", at=at)  # fmt: skip
    (at / "names").write_text("subjectAltName=IP:127.0.0.1")
    for name in ("server", "client"):
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj",
                f"/CN={name}", at=at)  # fmt: skip
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.pem",
                at=at)  # fmt: skip
    return at


def secure(running: Running, at: Path, *, with_certificate: bool) -> p.Packet | None:
    context = ssl.create_default_context(cafile=at / "ca.pem")
    if with_certificate:
        context.load_cert_chain(at / "client.pem", at / "client.key")
    with (
        socket.create_connection(("127.0.0.1", running.port), TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as sock,
    ):
        client = Wire(sock, None)
        client.send(p.Connect("c"))
        return client.read()


def test_tls_and_mutual_tls(certificates: Path) -> None:
    at = certificates
    files = ("--tls-cert", str(at / "server.pem"), "--tls-key", str(at / "server.key"))
    with broker(*files) as running:
        assert isinstance(secure(running, at, with_certificate=False), p.Connack)
    with broker(*files, "--tls-ca", str(at / "ca.pem")) as running:
        assert isinstance(secure(running, at, with_certificate=True), p.Connack)
        try:  # TLS 1.3 tells a client only after its handshake, as an alert or a reset
            answer = secure(running, at, with_certificate=False)
        except ssl.SSLError:
            answer = None
        assert answer is None


def test_a_host_that_others_reach_needs_a_way_to_ask_who_they_are() -> None:
    for host in ("0.0.0.0", "::", "broker.example"):
        refused = run("--host", host, "--port", "0")
        assert refused.returncode == 2
        assert "lets other machines in" in refused.stderr
        assert "--password-file" in refused.stderr
    with broker("--host", "0.0.0.0", "--allow-anonymous", "yes") as running:
        running.connect(p.Connect("c")).sock.close()


@pytest.mark.parametrize(
    "options",
    [["--port", "65536"], ["--metrics-port", "-1"], ["--sys-interval-s", "nan"],
     ["--connect-timeout-s", "inf"], ["--packet-timeout-s", "nan"]],
)  # fmt: skip
def test_numbers_that_mean_nothing_are_refused(options: list[str]) -> None:
    refused = run("--port", "0", *options)
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr


def test_more_clients_come_in_than_the_soft_limit_of_open_files_allows() -> None:
    limited = ("bash", "-c", 'ulimit -Sn 200; exec "$@"', "bash")
    with broker(under=limited) as running, contextlib.ExitStack() as stack:
        for index in range(300):
            stack.enter_context(running.connect(p.Connect(f"c{index}")))
