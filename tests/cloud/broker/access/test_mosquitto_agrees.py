"""One ACL file, the same meaning in Mosquitto: asked of a real one, topic by topic."""

import contextlib
import os
import pwd
import random
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from cloud.broker.access.acl import Acl
from cloud.broker.access.identity import Identity
from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode
from cloud.broker.codec.packets import Version
from cloud.broker.codec.parser import Parser
from cloud.broker.codec.reasons import ReasonCode
from cloud.broker.mosquitto import RUNNING

T = TypeVar("T", bound=p.Packet)
EXAMPLE = Path(__file__).parents[4] / "firmware_configs" / "broker" / "acl.conf"
ROOT = Identity("root", "root")
ROOTS_LINES = "\nuser root\ntopic readwrite #\n"


@contextlib.contextmanager
def mosquitto(folder: Path, acl: str) -> Iterator[Path]:
    """Run Mosquitto with this ACL; gives its Unix socket. It takes user names unchecked."""
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    assert program, "these tests need Mosquitto: apt-get install mosquitto"
    (folder / "acl").write_text(acl + ROOTS_LINES)
    (folder / "acl").chmod(0o600)
    (folder / "conf").write_text(
        f"listener 0 {folder}/sock\nallow_anonymous true\nacl_file {folder}/acl\n"
        f"user {pwd.getpwuid(os.getuid()).pw_name}\nlog_dest stderr\n"
    )
    process = subprocess.Popen(
        [program, "-c", str(folder / "conf")], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.rstrip().endswith(RUNNING):
                break
        else:
            raise AssertionError("".join(said))
        yield folder / "sock"
    finally:
        process.kill()
        process.communicate()


class Asker:
    """A version 5 client on a Unix socket."""

    def __init__(self, sock: Path, identity: Identity) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(10)
        self._socket.connect(str(sock))
        self._parser = Parser(1 << 20, Version.V5)
        self._found: list[p.Packet] = []
        self.delivered: list[str] = []
        self.send(p.Connect(identity.client_id, username=identity.username))
        connack = self.next(p.Connack)
        assert connack.reason == 0

    def send(self, packet: p.Packet) -> None:
        self._socket.sendall(encode(packet, Version.V5))

    def next(self, kind: type[T]) -> T:
        while True:
            while self._found:
                packet = self._found.pop(0)
                if isinstance(packet, p.Publish):
                    self.delivered.append(packet.topic)
                else:
                    assert isinstance(packet, kind)
                    return packet
            data = self._socket.recv(65_536)
            assert data, "the broker closed the connection"
            self._found.extend(self._parser.feed(data))

    def may_publish(self, topic: str) -> bool:
        self.send(p.Publish(topic, b"", 1, packet_id=1))
        reason = self.next(p.Puback).reason
        assert reason in (0, ReasonCode.NO_MATCHING_SUBSCRIBERS, ReasonCode.NOT_AUTHORIZED)
        return reason != ReasonCode.NOT_AUTHORIZED

    def subscribe(self, topic_filter: str) -> None:
        self.send(p.Subscribe(2, (p.Subscription(topic_filter),)))
        self.next(p.Suback)

    def close(self) -> None:
        self._socket.close()


def granted_by_mosquitto(
    folder: Path, acl: str, identities: list[Identity], topics: list[str]
) -> dict[tuple[Identity, str], set[str]]:
    """What each may write and read: a reader asks for all of it and sees what comes."""
    found = {}
    with mosquitto(folder, acl) as sock, contextlib.ExitStack() as stack:
        root = Asker(sock, ROOT)
        stack.callback(root.close)
        for identity in identities:
            asker = Asker(sock, identity)
            stack.callback(asker.close)
            found[identity, "write"] = {one for one in topics if asker.may_publish(one)}
            asker.subscribe("#")
            assert all(root.may_publish(topic) for topic in topics)
            asker.subscribe("fence")  # answered after what root's messages brought
            found[identity, "read"] = set(asker.delivered)
    return found


def granted_here(
    acl: str, identities: list[Identity], topics: list[str]
) -> dict[tuple[Identity, str], set[str]]:
    found = {}
    for identity in identities:
        rules = Acl.parse(acl + ROOTS_LINES, "acl").rules(identity)
        found[identity, "write"] = {one for one in topics if rules.may_publish(one)}
        found[identity, "read"] = {one for one in topics if rules.may_subscribe(one)}
    return found


def test_the_example_means_the_same_in_both(tmp_path: Path) -> None:
    identities = [
        Identity("cam-1", "cam-1"), Identity("gw", "cam-2"), Identity("w1", "worker"),
        Identity("t", "trust"), Identity("cam-3", None), Identity("x", "eve"),
    ]  # fmt: skip
    topics = [
        f"hy/v1/{device}/{end}"
        for device in ("cam-1", "cam-2", "cam-3", "gw", "worker", "tuf")
        for end in ("up/esc", "up/state", "up/tel/a", "down/ans", "down/desired", "other", "a.json")
    ]
    acl = EXAMPLE.read_text(encoding="utf-8")
    here = granted_here(acl, identities, topics)
    assert here == granted_by_mosquitto(tmp_path, acl, identities, topics)
    assert {len(one) for one in here.values()} > {0}, "something is granted"


WORDS = ["", "read ", "write ", "readwrite ", "deny "]
IDENTITIES = [
    Identity("c1", "ann"), Identity("c2", "bob"), Identity("c1x", None), Identity("ann", "lee ann"),
]  # fmt: skip
TOPICS = [
    f"{first}{second}"
    for first in ("a", "b", "", "ann", "c1", "with space")
    for second in ("", "/a", "/ann", "/c1", "/a/b", "/", "/bob/c2")
    if first or second
]


def random_acl(seed: int, *, has_pattern_denials: bool) -> str:
    rng = random.Random(seed)

    def random_filter(levels: list[str]) -> str:
        found = [rng.choice(levels) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.3:
            found[-1] = "#"
        return "/".join(found)

    lines = []
    for _ in range(rng.randint(3, 14)):
        kind = rng.choice(["topic", "topic", "pattern", "user", "#"])
        if kind == "user":
            lines.append("user " + rng.choice(["ann", "bob", "lee ann"]))
        elif kind == "#":
            lines.append(rng.choice(["# topic a", "", "   "]))
        else:
            words = WORDS if kind == "topic" or has_pattern_denials else WORDS[:-1]
            marks = ["%u", "%c"] if kind == "pattern" else []
            word = rng.choice(words)
            spaced = ["with space"] if word else []
            level = random_filter(["a", "b", "+", "ann", "", *marks, *spaced])
            lines.append(f"{kind} {word}{level or '+'}")
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(6))
def test_any_file_means_the_same_in_both(tmp_path: Path, seed: int) -> None:
    acl = random_acl(seed, has_pattern_denials=False)
    here = granted_here(acl, IDENTITIES, TOPICS)
    assert here == granted_by_mosquitto(tmp_path, acl, IDENTITIES, TOPICS), acl


@pytest.mark.parametrize("seed", range(3))
def test_where_a_pattern_denies_this_broker_grants_no_more(tmp_path: Path, seed: int) -> None:
    acl = random_acl(seed, has_pattern_denials=True)
    there = granted_by_mosquitto(tmp_path, acl, IDENTITIES, TOPICS)
    for who, topics in granted_here(acl, IDENTITIES, TOPICS).items():
        assert topics <= there[who], (who, acl)
