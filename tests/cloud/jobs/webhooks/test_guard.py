"""Names are checked when a job is accepted and at each connection; nothing gets past by changing."""

import asyncio
import socket
from collections.abc import Iterable

import aiohttp
import pytest

from cloud.jobs.counts import JobCounts
from cloud.jobs.settings import WebhookSettings
from cloud.jobs.webhooks.guard import (
    CheckedResolver,
    NotAllowed,
    WebhookGuard,
    checked_session,
    system_look_up,
)  # fmt: skip
from cloud.jobs.webhooks.urls import AddressRefused
from shared.errors import Malformed, Refused, Unavailable
from tests.cloud.jobs.sample import CALLER, SECRET, count, counts
from tests.cloud.jobs.webhooks.receivers import receiving

PUBLIC = "93.184.215.14"
SECRETS = {"secrets": {CALLER: [SECRET]}}


class Names:
    """A name server whose answers change: one list for each look-up, the last one stays."""

    def __init__(self, *answers: Iterable[str] | OSError) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int, family: socket.AddressFamily) -> list[str]:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, OSError):
            raise answer
        return list(answer)


def check(names: Names, url: str, caller: str = CALLER, found: JobCounts | None = None) -> None:
    rules = WebhookSettings.model_validate(SECRETS)
    asyncio.run(WebhookGuard(rules, found or counts(), names).check(caller, url))


def test_a_name_with_public_addresses_may_be_named() -> None:
    check(Names([PUBLIC, "2606:4700::1111"]), "https://hooks.example/")


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        [PUBLIC, "10.0.0.1"],
        ["::1"],
        [PUBLIC, "::ffff:169.254.169.254"],
        ["fe80::1%lo"],
    ],
    ids=str,
)
def test_a_name_with_one_private_address_is_refused_at_once_and_counted(
    addresses: list[str],
) -> None:
    found = counts()
    with pytest.raises(AddressRefused, match="no public address") as refused:
        check(Names(addresses), "https://hooks.example/", found=found)
    assert count(found, "guarded", why="address") == 1
    assert "127.0.0.1" not in str(refused.value)  # what inner names mean is not told


def test_a_bad_url_is_counted_apart() -> None:
    found = counts()
    with pytest.raises(Malformed):
        check(Names([PUBLIC]), "http://hooks.example/", found=found)
    with pytest.raises(AddressRefused):
        check(Names([PUBLIC]), "https://127.0.0.1/", found=found)
    assert count(found, "guarded", why="url") == 1
    assert count(found, "guarded", why="address") == 1


def test_a_caller_without_a_secret_may_name_none() -> None:
    found = counts()
    with pytest.raises(Refused, match="no secret"):
        check(Names([PUBLIC]), "https://hooks.example/", "key-2", found)
    assert count(found, "guarded", why="caller") == 1


def test_localhost_is_refused_by_the_systems_own_answer() -> None:
    rules = WebhookSettings.model_validate(SECRETS)
    with pytest.raises(AddressRefused):
        asyncio.run(
            WebhookGuard(rules, counts(), system_look_up).check(CALLER, "https://localhost/")
        )


def test_a_name_that_is_none_and_one_that_cannot_be_looked_up_now() -> None:
    with pytest.raises(AddressRefused, match="no public address"):
        check(Names(socket.gaierror(socket.EAI_NONAME, "no")), "https://hooks.example/")
    with pytest.raises(AddressRefused, match="no public address"):
        check(Names([]), "https://hooks.example/")
    with pytest.raises(Unavailable, match="cannot be looked up now"):
        check(Names(socket.gaierror(socket.EAI_AGAIN, "later")), "https://hooks.example/")


def test_a_look_up_that_hangs_is_ended() -> None:
    async def hangs(host: str, port: int, family: socket.AddressFamily) -> list[str]:
        await asyncio.Event().wait()
        return []

    rules = WebhookSettings.model_validate(SECRETS | {"resolve_s": 0.01})
    with pytest.raises(Unavailable, match="cannot be looked up now"):
        asyncio.run(WebhookGuard(rules, counts(), hangs).check(CALLER, "https://hooks.example/"))


def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    async def scenario() -> None:
        async with receiving() as receiver:
            rules = WebhookSettings.model_validate({"allow_private": ["127.0.0.0/8"]})
            async with checked_session(rules, Names(["127.0.0.1"])) as session:
                url = f"http://no-such-name.invalid:{receiver.port}/"
                async with session.post(url) as answer:
                    assert answer.status == 200
            assert receiver.got[0].headers["host"] == f"no-such-name.invalid:{receiver.port}"

    asyncio.run(scenario())


def test_a_name_that_changes_its_address_leads_nowhere() -> None:
    """DNS rebinding: public when the job was accepted, loopback when the result is sent."""
    names = Names([PUBLIC], ["127.0.0.1"])

    async def scenario() -> None:
        async with receiving() as receiver:
            rules = WebhookSettings.model_validate(SECRETS)
            await WebhookGuard(rules, counts(), names).check(CALLER, "https://rebinds.example/")
            async with checked_session(rules, names) as session:
                with pytest.raises(aiohttp.ClientConnectorError) as refused:
                    await session.post(f"http://rebinds.example:{receiver.port}/")
            assert isinstance(refused.value.os_error, NotAllowed)
            assert receiver.got == []

    asyncio.run(scenario())
    assert names.asked == 2


def test_each_message_looks_the_name_up_anew() -> None:
    names = Names(["127.0.0.1"], ["127.0.0.1"], ["127.0.0.2"])

    async def scenario() -> None:
        async with receiving() as receiver:
            rules = WebhookSettings.model_validate({"allow_private": ["127.0.0.1/32"]})
            async with checked_session(rules, names) as session:
                url = f"http://changes.example:{receiver.port}/"
                for _ in range(2):
                    async with session.post(url) as answer:
                        assert answer.status == 200
                with pytest.raises(aiohttp.ClientConnectorError):
                    await session.post(url)

    asyncio.run(scenario())
    assert names.asked == 3


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "127.1", "2130706433", "0"]
)
def test_a_socket_is_checked_even_where_no_name_is_looked_up(host: str) -> None:
    """What the URL's own check refuses before; this is what stands behind it."""

    async def scenario() -> None:
        async with receiving() as receiver, checked_session(WebhookSettings()) as session:
            with pytest.raises((aiohttp.ClientError, OSError)):
                await session.post(f"http://{host}:{receiver.port}/")
            assert receiver.got == []

    asyncio.run(scenario())


def test_a_resolver_gives_numbers_only() -> None:
    async def scenario() -> None:
        found = await CheckedResolver((), Names([PUBLIC, "2606:4700::1111"])).resolve("a", 443)
        assert [(one["host"], one["family"]) for one in found] == [
            (PUBLIC, socket.AF_INET), ("2606:4700::1111", socket.AF_INET6),
        ]  # fmt: skip

    asyncio.run(scenario())
