"""A device gets its certificate, from a region with real TLS and a real CA."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from cloud.fleet.identity.ca import CERTIFICATE
from edge.identity.address import check_url
from edge.identity.enrol import enrol, renew
from edge.identity.files import identity_files, present
from edge.identity.settings import Identity
from shared.errors import Disconnected, Forbidden, HybridgeError, Malformed, NotTrusted, Unknown
from tests.edge.identity.region_api import RegionApi, region_api

DAY_S = 86_400.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("region")


def run(folder: Path, work: Callable[[RegionApi], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        async with region_api(folder) as region:
            await work(region)

    asyncio.run(all_of_it())


def trust(region: RegionApi) -> Path:
    return region.at.services_ca / CERTIFICATE


def test_a_token_brings_key_certificate_and_authority(folder: Path, tmp_path: Path) -> None:
    async def work(region: RegionApi) -> None:
        done = await enrol(region.url, region.token(), "cam-1", tmp_path, ca=trust(region))
        assert done.present.device == "cam-1"
        assert done.broker == "mqtts://127.0.0.1:8883"
        assert done.present.serial == region.issued[0].serial
        files = identity_files(tmp_path)
        assert files is not None
        assert files.ca.read_bytes() == trust(region).read_bytes()

    run(folder, work)


def test_a_refusal_is_told_in_the_regions_words_and_keeps_nothing(
    folder: Path, tmp_path: Path
) -> None:
    async def work(region: RegionApi) -> None:
        token = region.token("cam-2")
        with pytest.raises(Forbidden, match="another device than cam-1"):
            await enrol(region.url, token, "cam-1", tmp_path, ca=trust(region))
        assert identity_files(tmp_path) is None

    run(folder, work)


def test_a_region_that_the_authority_does_not_know_hears_no_token(
    folder: Path, tmp_path: Path
) -> None:
    async def work(region: RegionApi) -> None:
        token = region.token()
        other = region.at.devices_ca / CERTIFICATE
        with pytest.raises(NotTrusted):
            await enrol(region.url, token, "cam-1", tmp_path, ca=other)
        (stored, _) = next(iter(region.tokens.values()))
        assert stored.used_at is None

    run(folder, work)


def answers() -> dict[str, web.Response]:
    return {
        "no document": web.Response(text="x"),
        "too much": web.Response(body=b" " * 200_000),
        "no PEM": web.json_response({"certificate": "x" * 60, "ca": "x" * 60, "renew_after": 1}),
        "elsewhere": web.Response(status=302, headers={"Location": "https://127.0.0.1:1/"}),
        "an error": web.Response(status=500),
    }


@pytest.mark.parametrize("kind", answers())
def test_an_answer_that_is_none_changes_nothing(folder: Path, tmp_path: Path, kind: str) -> None:
    async def work(region: RegionApi) -> None:
        serial = region.enrolled_before("cam-1", tmp_path, time.time(), 90)
        region.answer = answers()[kind]
        with pytest.raises(HybridgeError):
            await renew(Identity(url=region.url), "cam-1", tmp_path)
        own = present(tmp_path)
        assert own is not None
        assert own.serial == serial

    run(folder, work)


def test_a_long_answer_is_not_read_to_its_end(folder: Path, tmp_path: Path) -> None:
    async def work(region: RegionApi) -> None:
        region.answer = web.Response(body=b" " * 8_000_000)
        with pytest.raises(Malformed, match="answers with over 65536 bytes"):
            await enrol(region.url, region.token(), "cam-1", tmp_path, ca=trust(region))

    run(folder, work)


def test_a_certificate_for_another_device_is_not_kept(folder: Path, tmp_path: Path) -> None:
    async def work(region: RegionApi) -> None:
        region.signs_as = "cam-2"
        with pytest.raises(Malformed, match="a certificate for 'cam-2', not 'cam-1'"):
            await enrol(region.url, region.token(), "cam-1", tmp_path, ca=trust(region))
        assert identity_files(tmp_path) is None

    run(folder, work)


def test_a_renewal_has_a_new_key_and_shows_the_old_certificate(
    folder: Path, tmp_path: Path
) -> None:
    async def work(region: RegionApi) -> None:
        serial = region.enrolled_before("cam-1", tmp_path, time.time(), 90)
        files = identity_files(tmp_path)
        assert files is not None
        key = files.key.read_bytes()
        new = await renew(Identity(url=region.url), "cam-1", tmp_path)
        assert region.shown == [serial]
        assert new.serial != serial
        assert files.key.read_bytes() != key  # the paths stay, what they lead to is new

    run(folder, work)


def test_an_expired_certificate_renews_itself(folder: Path, tmp_path: Path) -> None:
    async def work(region: RegionApi) -> None:
        region.enrolled_before("cam-1", tmp_path, time.time() - 200 * DAY_S, 90)
        new = await renew(Identity(url=region.url), "cam-1", tmp_path)
        assert new.validity.not_after > time.time()

    run(folder, work)


def test_after_a_year_it_does_not(folder: Path, tmp_path: Path) -> None:
    async def work(region: RegionApi) -> None:
        # the CA would have been there for that long
        serial = region.enrolled_before("cam-1", tmp_path, time.time() - 500 * DAY_S, 90)
        with pytest.raises(Forbidden, match="expired 410 days ago"):
            await renew(Identity(url=region.url), "cam-1", tmp_path)
        own = present(tmp_path)
        assert own is not None
        assert own.serial == serial

    run(folder, work)


def test_a_revoked_certificate_does_not_renew(folder: Path, tmp_path: Path) -> None:
    async def work(region: RegionApi) -> None:
        serial = region.enrolled_before("cam-1", tmp_path, time.time(), 90)
        region.revoked.add(serial)
        with pytest.raises(Forbidden, match="revoked"):
            await renew(Identity(url=region.url), "cam-1", tmp_path)

    run(folder, work)


def test_without_a_certificate_there_is_nothing_to_renew(folder: Path, tmp_path: Path) -> None:
    async def work(region: RegionApi) -> None:
        with pytest.raises(Unknown, match="hybridge-edge enrol"):
            await renew(Identity(url=region.url), "cam-1", tmp_path)

    run(folder, work)


def test_nobody_there_is_unavailable(folder: Path, tmp_path: Path) -> None:
    async def work(region: RegionApi) -> None:
        with pytest.raises(Disconnected):
            await enrol("https://127.0.0.1:1", region.token(), "cam-1", tmp_path, ca=trust(region))

    run(folder, work)


@pytest.mark.parametrize("url", ["http://fleet.example", "ftp://a", "https://", "https://u:p@a",
                                 "https://a?x", "fleet.example", "https://[::1", ""])  # fmt: skip
def test_a_token_goes_over_nothing_but_https(url: str) -> None:
    with pytest.raises(Malformed, match="url"):
        check_url(url)
    with pytest.raises(ValueError, match="url"):
        Identity(url=url)


@pytest.mark.parametrize("url", ["https://a:8720", "http://127.0.0.1:1", "http://localhost:1/x"])
def test_plain_http_is_for_this_machine(url: str) -> None:
    check_url(url)


def test_the_ssl_module_still_knows_the_flag() -> None:
    context = ssl.create_default_context()
    context.verify_flags = ssl.VerifyFlags(context.verify_flags | 0x200000)
    assert int(context.verify_flags) & 0x200000
