"""A region as `hybridge fleet init` makes it, with a real broker that runs on its generated files."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cloud.broker.launch import BrokerAddress
from cloud.broker.mosquitto import RUNNING
from cloud.fleet.identity.ca import CRL, DeviceCa, IssuedCertificate
from cloud.fleet.setup.acl import acl
from cloud.fleet.setup.init import create
from cloud.fleet.setup.layout import DEVICES_PORT, SERVICES_PORT, Layout
from edge.identity.key import new_key_and_request
from shared.disk import write_whole
from tests.brokers import BrokerKind, running_broker

DAY_S = 86_400.0
HOST = "127.0.0.1"


@dataclass
class Region:
    """`devices` and `services`: the broker's two doors; the embedded broker has one for both."""

    at: Layout
    ca: DeviceCa
    devices: BrokerAddress
    services: BrokerAddress
    pid: int
    revoked: dict[str, float] = field(default_factory=dict)
    shut_out: set[str] = field(default_factory=set)

    def device(self, name: str, at: float | None = None, days: float = 30.0) -> "Credential":
        """A certificate for a device, issued at that time (now)."""
        return issued_by(self.ca, name, self.at.folder / "devices", at, days)

    def context(self, own: "Credential | None") -> ssl.SSLContext:
        found = ssl.create_default_context(cafile=self.ca.folder / "servers.pem")
        if own is not None:
            found.load_cert_chain(own.certificate, own.key)
        return found

    def service(self, name: str) -> ssl.SSLContext:
        found = ssl.create_default_context(cafile=self.ca.folder / "servers.pem")
        found.load_cert_chain(self.at.certificate(name), self.at.key(name))
        return found

    def revoke(self, *credentials: "Credential", with_devices: bool = False) -> None:
        """Put them on the list, the devices too if asked, and have the broker read it."""
        self.revoked |= {one.issued.serial: time.time() for one in credentials}
        write_whole(self.ca.folder / CRL, self.ca.crl(self.revoked, time.time()).encode())
        self.shut_out |= {one.name for one in credentials} if with_devices else set()
        write_whole(self.at.acl, acl(self.shut_out).encode(), private=True)
        os.kill(self.pid, signal.SIGHUP)


@dataclass(frozen=True)
class Credential:
    name: str
    issued: IssuedCertificate
    certificate: Path
    key: Path


def issued_by(ca: DeviceCa, name: str, folder: Path, at: float | None, days: float) -> Credential:
    key, request = new_key_and_request(name)
    issued = ca.issue(request, name, time.time() if at is None else at, days)
    folder.mkdir(exist_ok=True)
    certificate, key_file = folder / f"{issued.serial}.pem", folder / f"{issued.serial}.key"
    certificate.write_text(issued.pem)
    key_file.write_bytes(key)
    return Credential(name, issued, certificate, key_file)


@contextlib.contextmanager
def running_region(kind: BrokerKind, folder: Path) -> Iterator[Region]:
    create(folder, "lyon", (HOST, "localhost"), kind)
    at = Layout(folder)
    ca = DeviceCa.open(at.devices_ca)
    if kind == "embedded":
        settings = tomllib.loads(at.broker_config.read_text())["broker"]
        del settings["kind"]
        with running_broker(
            "embedded", folder / "state", **settings | {"host": HOST, "port": 0}
        ) as it:
            assert it.pid is not None
            yield Region(at, ca, it, it, it.pid)
        return
    with _mosquitto(at) as (process, ports):
        died = None  # whoever waits for it would be `process`
        devices, services = (BrokerAddress(HOST, port, died, True) for port in ports)  # type: ignore[arg-type]
        yield Region(at, ca, devices, services, process.pid)


@contextlib.contextmanager
def _mosquitto(at: Layout) -> Iterator[tuple["subprocess.Popen[str]", tuple[int, int]]]:
    """On the generated file but for its ports, its addresses, and the user that it runs as."""
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    assert program is not None, "these tests need Mosquitto: apt-get install mosquitto"
    text = at.mosquitto_config.read_text()
    ports = (_free_port(), _free_port())
    for stated, port in zip((DEVICES_PORT, SERVICES_PORT), ports, strict=True):
        text = text.replace(f"listener {stated} 0.0.0.0", f"listener {port} {HOST}")
    config = at.mosquitto_config.with_name("test.conf")
    config.write_text(f"{text}user {pwd.getpwuid(os.getuid()).pw_name}\n")
    with subprocess.Popen(
        [program, "-c", str(config)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.rstrip().endswith(RUNNING):
                break
        else:
            raise AssertionError(f"mosquitto ended: {said}")
        drain = threading.Thread(target=process.stderr.read)
        drain.start()
        try:
            for port in ports:  # a SIGTERM before its main loop turns would be lost
                with socket.create_connection((HOST, port), 10) as probe:
                    probe.sendall(b"\0")
                    probe.shutdown(socket.SHUT_WR)
                    while probe.recv(1024):
                        pass
            yield process, ports
        finally:
            process.terminate()
            process.wait(10)
            drain.join()


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])
