"""A clock in 1970, as this machine's is towards a region whose certificates begin next year."""

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from cloud.fleet.api.tls import server_context
from cloud.fleet.identity.ca import CERTIFICATE, DeviceCa, write_key
from cloud.fleet.setup.init import create
from cloud.fleet.setup.layout import Layout
from edge.identity.enrol import renew
from edge.identity.files import Present, present
from edge.identity.settings import Identity
from shared.errors import NotTrusted
from tests.edge.identity.region_api import RegionApi, region_api

DAY_S = 86_400.0
NEXT_YEAR_S = 400 * DAY_S


@pytest.fixture
def at(tmp_path: Path) -> Layout:
    create(tmp_path / "region", "lyon", ("localhost",))
    return Layout(tmp_path / "region")


@pytest.fixture
def certified(at: Layout) -> Callable[[float, float], ssl.SSLContext]:
    """A server whose certificate is issued so much later, for so many days."""

    def make(later_s: float, days: float) -> ssl.SSLContext:
        key, hosts = ec.generate_private_key(ec.SECP256R1()), [x509.DNSName("localhost")]
        made = DeviceCa.open(at.services_ca).issue_service(
            key.public_key(), "server", time.time() + later_s, days, tuple(hosts)
        )
        write_key(at.folder / "other.key", key)
        (at.folder / "other.pem").write_text(made.pem)
        return server_context(
            at.folder / "other.pem", at.folder / "other.key", at.devices_ca / CERTIFICATE
        )

    return make


def renewed(
    at: Layout, server: ssl.SSLContext, begins_in_s: float
) -> tuple[str, Present, RegionApi]:
    """The old serial and the new certificate, of a device whose own began then."""

    async def ask() -> tuple[str, Present, RegionApi]:
        async with region_api(at.folder, server) as region:
            state_dir = at.folder / "device"
            serial = region.enrolled_before("cam-1", state_dir, time.time() + begins_in_s, 90)
            url = region.url.replace("127.0.0.1", "localhost")
            new = await renew(Identity(url=url), "cam-1", state_dir)
            assert present(state_dir) == new
            return serial, new, region

    return asyncio.run(ask())


def test_a_clock_that_is_slow_does_not_keep_a_device_from_its_next_certificate(
    at: Layout, certified
) -> None:
    serial, new, region = renewed(at, certified(NEXT_YEAR_S, 90), NEXT_YEAR_S)
    assert region.shown == [serial]
    assert new.serial != serial


def test_but_a_server_whose_time_was_over_when_the_devices_began_is_refused(
    at: Layout, certified
) -> None:
    with pytest.raises(NotTrusted, match="server's certificate ended at"):
        renewed(at, certified(0, 90), NEXT_YEAR_S)


def test_and_one_of_another_authority_is(at: Layout, tmp_path: Path) -> None:
    create(tmp_path / "other", "lyon", ("localhost",))
    other = Layout(tmp_path / "other")
    server = server_context(
        other.certificate("server"), other.key("server"), at.devices_ca / CERTIFICATE
    )
    with pytest.raises(NotTrusted):
        renewed(at, server, NEXT_YEAR_S)


def test_a_clock_that_may_be_right_is_believed(at: Layout, certified) -> None:
    with pytest.raises(NotTrusted, match="not yet valid"):
        renewed(at, certified(NEXT_YEAR_S, 90), -DAY_S)
