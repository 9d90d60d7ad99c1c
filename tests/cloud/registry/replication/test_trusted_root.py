import asyncio
from datetime import UTC, datetime

import pytest

from cloud.registry.replication.trusted_root import TrustedRoot
from cloud.registry.trust import edits
from cloud.registry.trust.ceremony import initialise
from cloud.registry.trust.keys import load_signer
from shared.errors import Malformed, NotTrusted

NOW = datetime.now(UTC)


class Keys:
    def __init__(self, folder):
        self.folder = folder
        self.first = initialise(folder, NOW).root

    def next(self, content, *keys, epoch=None):
        signers = [load_signer(self.folder / f"{key}.pem", None) for key in keys]
        return edits.sign(edits.next_root(content, NOW, 100, epoch=epoch), "root", signers)


@pytest.fixture
def keys(tmp_path):
    return Keys(tmp_path / "keys")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "state" / "root.json"


def walked(root, *contents):
    """From a registry that has these versions, from the second on."""

    async def fetch(version):
        return contents[version - 2] if version - 2 < len(contents) else None

    return asyncio.run(root.walk(fetch))


def test_every_newer_root_is_taken_and_kept(keys, file):
    second = keys.next(keys.first, "root-1", "root-2", epoch=2)
    third = keys.next(second, "root-2", "root-3")
    root = TrustedRoot(file, keys.first)
    assert (root.version, root.epoch) == (1, 1)
    assert walked(root, second, third)
    assert (root.version, root.epoch) == (3, 2)
    again = TrustedRoot(file, keys.first)  # a restart goes on from there
    assert (again.version, again.epoch) == (3, 2)
    assert not walked(again, second, third)


def test_a_root_signed_by_too_few_is_refused_and_none_after_it_is_seen(keys, file):
    second = keys.next(keys.first, "root-1", epoch=2)
    root = TrustedRoot(file, keys.first)
    with pytest.raises(NotTrusted):
        walked(root, second, keys.next(second, "root-1", "root-2"))
    assert (root.version, root.epoch, file.exists()) == (1, 1, False)


def test_a_root_of_strangers_is_refused(keys, file, tmp_path):
    strangers = Keys(tmp_path / "strangers")
    root = TrustedRoot(file, keys.first)
    with pytest.raises(NotTrusted):
        walked(root, strangers.next(strangers.first, "root-1", "root-2", epoch=7))
    assert root.epoch == 1


def test_an_epoch_that_falls_is_refused(keys, file):
    second = keys.next(keys.first, "root-1", "root-2", epoch=3)
    root = TrustedRoot(file, keys.first)
    with pytest.raises(NotTrusted, match="epoch"):
        walked(root, second, keys.next(second, "root-1", "root-2", epoch=2))
    assert (root.version, root.epoch) == (2, 3)


def test_a_damaged_file_is_refused_with_what_to_do(keys, file):
    file.parent.mkdir()
    file.write_bytes(keys.first[:-40])
    with pytest.raises(Malformed, match="restore"):
        TrustedRoot(file, keys.first)


def test_a_registry_that_is_silent_holds_up_no_other(keys, file):
    second = keys.next(keys.first, "root-1", "root-2", epoch=2)

    async def scenario():
        root, asked = TrustedRoot(file, keys.first), asyncio.Event()

        async def silent(_version):
            asked.set()
            await asyncio.Event().wait()

        async def answers(version):
            return second if version == 2 else None

        slow = asyncio.create_task(root.walk(silent))
        await asked.wait()
        async with asyncio.timeout(10):
            assert await root.walk(answers)
        slow.cancel()
        assert root.epoch == 2

    asyncio.run(scenario())


def test_two_that_bring_the_same_root_bring_it_once(keys, file):
    second = keys.next(keys.first, "root-1", "root-2", epoch=2)

    async def scenario():
        root, both = TrustedRoot(file, keys.first), asyncio.Barrier(2)

        async def fetch(version):
            if version == 2:
                await both.wait()  # both have it before either takes it
                return second
            return None

        return await asyncio.gather(root.walk(fetch), root.walk(fetch)), root.version

    moved, version = asyncio.run(scenario())
    assert sorted(moved) == [False, True]
    assert version == 2
