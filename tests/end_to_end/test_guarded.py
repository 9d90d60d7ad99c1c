"""A region that asks everybody who they are: passwords and the ACL of firmware_configs."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cloud.broker.access.passwords import with_user
from cloud.broker.codec import packets as p
from cloud.broker.launch import BrokerAddress
from tests.end_to_end.region import Region
from tests.end_to_end.site import Site
from tests.raw_client import RawClient

ACL = Path(__file__).parents[2] / "firmware_configs" / "broker" / "acl.conf"
AGENT = 'username = "cam-1"\npassword = "cam-1 secret"\n'


@dataclass
class Guarded(Region):
    """The cloud worker starts the broker itself, as `hybridge-cloud serve` does by default."""

    def prepare(self) -> None:
        super().prepare()
        text = ""
        for name in ("cam-1", "cam-2"):
            text = with_user(text, name, f"{name} secret".encode(), name.encode() * 4, "passwords")
        (self.folder / "passwords").write_text(text)
        (self.folder / "cloud.toml").write_text(
            '[[models]]\nbundle = "cloud-bundle"\n'
            f'[broker]\nport = {self.broker_port}\npassword_file = "passwords"\n'
            f'acl_file = "{ACL}"\n[api]\nport = 0\n'
        )
        file = self.folder / "agent.toml"
        file.write_text(file.read_text().replace("[uplink]\n", f"[uplink]\n{AGENT}"))

    def arguments(self, name: str) -> tuple[str, ...]:
        if name == "cloud":
            return ("-m", "cloud", "serve", "--config", str(self.folder / "cloud.toml"))
        return super().arguments(name)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with asyncio.Runner() as runner:
        site = Site(Guarded(tmp_path), runner)
        try:
            site.configure("[routing]\naudit_share = 0.0\n")
            site.up("cloud", "agent")
            yield site
        finally:
            runner.run(site.region.down())


def as_user(site: Site, username: str, secret: str) -> RawClient:
    died = site.runner.get_loop().create_future()
    address = BrokerAddress("127.0.0.1", site.region.broker_port, died)
    connect = p.Connect(f"{username}/2", username=username, password=secret.encode())
    return RawClient(address, connect)


def test_a_device_with_its_password_is_answered_and_keeps_to_its_own_topics(site: Site) -> None:
    site.good()
    with as_user(site, "cam-2", "wrong") as client:
        assert client.connack is not None
        assert client.connack.reason == 0x86
    with as_user(site, "cam-2", "cam-2 secret") as client:
        asked = (
            "hy/v1/cam-1/down/ans",
            "hy/v1/cam-2/down/ans",
            "$share/workers/hy/v1/+/up/esc",
            "#",
        )
        filters = tuple(p.Subscription(one, 1) for one in asked)
        client.send(p.Subscribe(1, filters))
        granted = client.answer(p.Suback)
        assert granted.reasons == (0x87, 1, 0x87, 0x87)
        for topic, reason in (("hy/v1/cam-1/up/esc", 0x87), ("hy/v1/cam-2/up/esc", 0)):
            client.send(p.Publish(topic, b"x", 1, packet_id=7))
            assert client.answer(p.Puback).reason == reason
    site.good()
