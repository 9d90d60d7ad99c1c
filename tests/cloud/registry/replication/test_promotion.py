import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cloud.registry.replication.before_promotion import Circumstances, losses, never
from cloud.registry.replication.promotion import promote
from cloud.registry.replication.rejoin import rejoin
from cloud.registry.replication.role import RoleFile
from cloud.registry.replication.signed_heads import SignedHeadFile
from cloud.registry.trust.keys import create_key
from shared.errors import Conflict, InUse, Malformed, NotTrusted, ReadOnly, Unavailable

FINE = Circumstances(role="replica", seq=9, epoch=1, root_epoch=1, newest=9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"role": "home"}, "home already"),
        ({"role": "fenced"}, "rejoin"),
        ({"root_epoch": 2}, "follow that one"),
        ({"seq": 0}, "nothing was replicated"),
    ],
)
def test_what_never_may_be_promoted(change, words):
    assert never(FINE) is None
    assert words in (never(replace(FINE, **change)) or "")


def test_what_would_be_lost_is_said():
    assert losses(FINE) == ()
    found = replace(
        FINE, newest=12, ahead=("http://other",), artifacts_missing=2, homes=("http://home",)
    )
    entries, artifacts, writes = losses(found)
    assert "3 entries of the log, 10 to 12" in entries
    assert "http://other has more" in entries
    assert "2 artifacts" in artifacts
    assert "http://home" in writes


async def replicated(world):
    """A replica that has all; home and replica are stopped."""
    replica = world.config("replica", follows=("home",))
    async with world.home():
        await world.write("home", "shared")
        async with world.running(replica):
            await world.caught_up("replica")
    return replica


def test_a_promoted_replica_takes_changes_and_vouches_for_its_log_in_the_new_epoch(world):
    async def scenario():
        replica = await replicated(world)
        before = await world.head(replica)
        done = await world.promoted(replica)
        assert (done.epoch, done.seq, done.root_version) == (2, before.seq + 1, 2)
        async with world.running(replica):
            await world.write("replica", "new")
            async with world.client("replica") as home:
                answer = await home.log(before.seq, 1)
                assert answer.entries[0].epoch == answer.head.epoch == 2
                root = json.loads(await home.trust_file("2.root.json", 100_000))
                assert root["signed"]["x-hybridge-epoch"] == 2
            other = world.config("other", follows=("replica",))
            async with world.running(other):
                await world.caught_up("other", to="replica")

    asyncio.run(scenario())


def test_a_dry_run_changes_nothing(world):
    async def scenario():
        replica = await replicated(world)
        before = await world.head(replica)
        assert not (await world.promoted(replica, dry_run=True)).done
        assert await world.head(replica) == before
        assert RoleFile(replica.state_dir).read() is None
        assert not replica.trust.online_keys.exists()

    asyncio.run(scenario())


def test_what_is_not_caught_up_is_promoted_by_force_alone(world):
    async def scenario():
        replica = await replicated(world)
        file = SignedHeadFile(replica.state_dir / "replication" / "signed_head.json")
        signed = file.read()
        assert signed is not None
        file.write(signed.model_copy(update={"newest": signed.newest + 3}))
        with pytest.raises(Conflict, match=r"lose 3 entries .* --force"):
            await world.promoted(replica)
        done = await world.promoted(replica, force=True)
        assert done.done
        assert "3 entries" in done.lost[0]

    asyncio.run(scenario())


def test_a_home_that_still_answers_must_be_stopped_first(world):
    async def scenario():
        replica = await replicated(world)
        async with world.home():
            with pytest.raises(Conflict, match="stop it first"):
                await world.promoted(replica)

    asyncio.run(scenario())


def test_too_few_root_keys_promote_nothing(world):
    async def scenario():
        replica = await replicated(world)
        before = await world.head(replica)
        for dry_run in (True, False):
            with pytest.raises(NotTrusted, match="needs 2 of the keys"):
                await world.promoted(replica, "root-1", "targets", dry_run=dry_run)
        assert await world.head(replica) == before
        assert RoleFile(replica.state_dir).read() is None

    asyncio.run(scenario())


def test_without_a_folder_for_the_new_keys_nothing_is_begun(world):
    async def scenario():
        replica = await replicated(world)
        bare = replica.model_copy(
            update={"trust": replica.trust.model_copy(update={"online_keys": None})}
        )
        with pytest.raises(Malformed, match="online_keys"):
            await promote(
                bare, [], actor="a", comment="", environment={}, now=datetime.now(UTC)
            )  # fmt: skip

    asyncio.run(scenario())


def test_a_promotion_killed_after_its_keys_were_made_goes_on_with_them(world):
    async def scenario():
        replica = await replicated(world)
        key = create_key(replica.trust.online_keys / "snapshot-epoch-2.pem", None)
        await world.promoted(replica)
        async with world.running(replica), world.client("replica") as home:
            root = json.loads(await home.trust_file("2.root.json", 100_000))
            assert root["signed"]["roles"]["snapshot"]["keyids"] == [key.public_key.keyid]

    asyncio.run(scenario())


def test_a_promotion_killed_before_the_role_was_written_is_ended_and_not_done_twice(world):
    async def scenario():
        replica = await replicated(world)
        done = await world.promoted(replica)
        RoleFile(replica.state_dir).path.unlink()
        head = await world.head(replica)
        again = await world.promoted(replica)
        assert (again.epoch, again.root_version) == (done.epoch, done.root_version)
        assert await world.head(replica) == head
        role = RoleFile(replica.state_dir).read()
        assert role is not None
        assert role.role == "home"

    asyncio.run(scenario())


def test_a_home_is_not_promoted(world):
    async def scenario():
        await replicated(world)
        with pytest.raises(Conflict, match="home already"):
            await world.promoted(world.config("home"))

    asyncio.run(scenario())


def test_an_old_home_is_fenced_at_its_start_keeps_its_entries_aside_and_rejoins_by_command(world):
    async def scenario():
        home = world.config("home", peers=("replica",))
        replica = await replicated(world)
        await world.scribble(home, "only-at-the-old-home")
        await world.promoted(replica)
        async with world.running(replica):
            await world.write("replica", "new")
            async with world.running(home, alone=True):  # whatever it is started with
                with pytest.raises(ReadOnly, match=world.url("replica")):
                    await world.write("home", "refused")
                with pytest.raises(InUse):
                    await rejoin(home, (), datetime.now(UTC))
                await world.until("home", lambda found: found.role == "fenced")
                async with asyncio.timeout(10):
                    while (  # noqa: ASYNC110  another task writes it
                        role := RoleFile(home.state_dir).read()
                    ) is None or not role.divergent:
                        await asyncio.sleep(0.01)
            done = await rejoin(home, (), datetime.now(UTC))
            assert (done.entries, done.home) == (1, world.url("replica"))
            aside = json.loads(done.divergent.read_text())
            assert [entry["change"]["model"] for entry in aside["entries"]] == [
                "only-at-the-old-home"
            ]
            assert aside["fork"]["seq"] == done.fork_seq
            async with world.running(home):
                await world.caught_up("home", to="replica")
                async with world.client("home") as asked:
                    names = {model.name for model in await asked.models()}
                assert names == {"shared", "new"}

    asyncio.run(scenario())


def test_a_forked_replica_rejoins_and_has_the_homes_log(world):
    async def scenario():
        replica = await replicated(world)
        await world.scribble(replica, "only-here")
        async with world.home():
            await world.write("home", "only-there")
            would = await rejoin(replica, (), datetime.now(UTC), is_dry_run=True)
            done = await rejoin(replica, (), datetime.now(UTC))
            assert (would.entries, would.fork_seq) == (1, done.fork_seq)  # and it was all there yet
            assert done.entries == 1
            assert done.catalog is not None
            assert done.catalog.exists()
            async with world.running(replica):
                await world.caught_up("replica")

    asyncio.run(scenario())


def test_a_home_that_nobody_took_over_from_does_not_rejoin(world):
    async def scenario():
        replica = await replicated(world)
        async with world.running(replica):
            with pytest.raises(Conflict, match="promote that one first"):
                await rejoin(world.config("home"), [world.url("replica")], datetime.now(UTC))

    asyncio.run(scenario())


def test_without_the_new_home_nobody_rejoins(world):
    async def scenario():
        replica = await replicated(world)
        with pytest.raises(Unavailable):
            await rejoin(replica, (), datetime.now(UTC))
        assert (await world.head(replica)).seq

    asyncio.run(scenario())
