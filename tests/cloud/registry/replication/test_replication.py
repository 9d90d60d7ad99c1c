import asyncio
import shutil

import pytest

from cloud.registry.client.client import RegistryClient
from cloud.registry.client.settings import ClientSettings
from cloud.registry.replication.role import RegionRole, RoleFile
from cloud.registry.service import RegistryService
from shared.errors import InUse, ReadOnly
from tests.cloud.registry.replication.world import WAIT_S


def events(caplog, name):
    return [record for record in caplog.records if record.message == name]


def test_a_home_that_reaches_no_peer_takes_no_changes_until_it_does(world, caplog):
    async def scenario():
        home = world.config("home", peers=("replica",))
        async with world.home(peers=("replica",)):
            pass
        async with world.running(home):
            with pytest.raises(ReadOnly, match="--alone"):
                await world.write("home", "refused")
            assert (await world.status("home")).state == "unsure"
            async with world.running(world.config("replica", follows=("home",))):
                await world.until("home", lambda found: found.state == "home")
                await world.write("home", "taken")
                await world.caught_up("replica")

    asyncio.run(scenario())
    assert len(events(caplog, "home_confirmed")) == 1


def test_a_home_that_is_told_to_be_alone_takes_changes(world):
    async def scenario():
        async with world.home(peers=("replica",)):
            await world.write("home", "taken")

    asyncio.run(scenario())


def test_a_replica_refuses_changes_and_names_its_home(world):
    async def scenario():
        replica = world.config("replica", follows=("home",))
        async with world.home(), world.running(replica):
            await world.caught_up("replica")
            with pytest.raises(ReadOnly, match=world.url("home")):
                await world.write("replica", "refused")

    asyncio.run(scenario())


def test_a_replica_tells_its_home_what_it_has_and_what_its_devices_run(world):
    async def scenario():
        replica = world.config("replica", follows=("home",))
        async with world.home(), world.running(replica), world.client("home") as home:
            found = await world.caught_up("replica")
            async with world.client("replica") as asked:
                await asked.connection.json(
                    "PUT", "/v1/runners/cam-1",
                    document={"model": "m", "version": "1.0.0", "variant": "onnxruntime/int8"},
                )  # fmt: skip
            async with asyncio.timeout(20):
                while not (  # noqa: ASYNC110  another's state
                    (said := await home.replicas()) and said[0].running
                ):
                    await asyncio.sleep(0.01)
        assert (said[0].name, said[0].seq, said[0].epoch) == ("replica", found.seq, 1)
        assert [one.name for one in said[0].running] == ["cam-1"]

    asyncio.run(scenario())


def test_a_fork_stops_the_replica_which_still_serves_and_is_counted_and_logged(world, caplog):
    async def scenario():
        replica = world.config("replica", follows=("home",))
        async with world.home():
            async with world.running(replica):
                await world.caught_up("replica")
            await world.scribble(replica, "only-here")
            await world.write("home", "only-there")
            async with world.running(replica):
                found = await world.until("replica", lambda found: found.state == "forked")
                assert "rejoin" in found.why
                assert found.counts["forked"] == 1
                async with world.client("replica") as asked:
                    assert [model.name for model in await asked.models()] == ["only-here"]
                    assert await asked.trust_file("timestamp.json", 100_000)

    asyncio.run(scenario())
    (line,) = [one for one in events(caplog, "not_followed") if one.trouble == "forked"]
    assert line.levelname == "ERROR"


def test_a_replica_follows_through_a_replica_while_the_home_is_away(world):
    async def scenario():
        near = world.config("near", follows=("home",))
        far = world.config("far", follows=("home", "near"))
        async with world.running(near):
            async with world.home():
                await world.write("home", "one")
                head = await world.caught_up("near")
            async with world.running(far):  # it has never seen the home
                found = await world.until("far", lambda found: found.seq == head.seq)
                assert found.home == world.url("near")

    asyncio.run(scenario())


def test_an_answer_that_is_too_long_is_asked_for_in_smaller_parts(world):
    async def scenario():
        replica = world.config("replica", follows=("home",))
        home = replica.home.model_copy(update={"answer_bytes_max": 4096})
        async with world.home():
            await world.write("home", *(f"model-{number}" for number in range(20)))
            async with world.running(replica.model_copy(update={"home": home})):
                found = await world.caught_up("replica")
                assert found.counts["refused"] >= 1

    asyncio.run(scenario())


def test_what_a_replica_lost_itself_is_not_taken_for_thrown_away_by_the_home(world):
    async def scenario():
        near = world.config("near", follows=("home",))
        far = world.config("far", follows=("near",))
        async with world.home(), world.running(near):
            await world.caught_up("near")
        (await world.artifact(near, "targets")).unlink()
        async with world.running(near), world.running(far):
            found = await world.until("far", lambda found: bool(found.counts.get("copy")))
            assert found.seq == 0
            assert "artifacts are not there" in found.why

    asyncio.run(scenario())


def test_lost_artifacts_are_copied_again(world, caplog):
    async def scenario():
        replica = world.config("replica", follows=("home",))
        async with world.home():
            async with world.running(replica):
                await world.caught_up("replica")
            lost = await world.artifact(replica, "targets")
            lost.unlink()
            async with world.running(replica):
                await world.until("replica", lambda found: found.counts["artifacts"] == 1)
            assert lost.exists()

    asyncio.run(scenario())
    assert events(caplog, "artifacts_missing")


def test_a_log_in_which_nothing_happens_is_followed_on(world):
    async def scenario():
        async with world.home():
            quick = ClientSettings(silence_s_max=0.6, patience_s=0.01)
            async with RegistryClient([world.url("home")], settings=quick) as client:
                page = await client.log((await client.state()).head.seq, wait_s=30)
                assert page.entries == ()

    asyncio.run(scenario())


def test_two_processes_cannot_run_one_registry(world):
    async def scenario():
        config = world.config("home")
        async with world.running(config):
            other = config.model_copy(update={"api": config.api.model_copy(update={"port": 0})})
            with pytest.raises(ExceptionGroup) as raised:
                async with asyncio.timeout(WAIT_S):
                    await RegistryService(other, (), lambda _: None).run()
            assert raised.group_contains(InUse)

    asyncio.run(scenario())


def test_a_lost_home_is_logged_once_and_once_when_it_is_back(world, caplog):
    async def scenario():
        replica = world.config("replica", follows=("home",))
        async with world.running(replica):
            for _ in range(2):
                async with world.home():
                    await world.until("replica", lambda found: found.state == "following")
                await world.until(
                    "replica", lambda found: found.state == "away" and found.counts["unreachable"] > 5
                )  # fmt: skip

    asyncio.run(scenario())
    assert len(events(caplog, "following")) == 2
    assert 2 <= len(events(caplog, "not_followed")) <= 4  # refused and unreachable may alternate


def test_a_home_that_was_set_back_is_not_followed_and_nothing_is_lost_here(world):
    """Restored from a backup, it has fewer entries than its replica."""

    async def scenario():
        replica = world.config("replica", follows=("home",))
        async with world.running(replica):
            async with world.home():
                await world.write("home", "one")
                before = await world.caught_up("replica")
            for file in (world.folder / "home").glob("catalog.db*"):
                file.unlink()
            async with world.home():
                found = await world.until(
                    "replica", lambda found: bool(found.counts.get("behind"))
                    or found.state == "forked",
                )  # fmt: skip
                assert found.seq == before.seq

    asyncio.run(scenario())


@pytest.mark.parametrize("wrote", [False, True], ids=["shorter", "another entry"])
def test_a_home_that_was_set_back_takes_no_changes_once_a_replica_tells_it(world, caplog, wrote):
    async def scenario():
        home = world.config("home", peers=("replica",))
        replica = world.config("replica", follows=("home",))
        backup = world.folder / "backup"
        async with world.home():
            pass
        shutil.copytree(world.folder / "home", backup)
        async with world.running(replica):
            async with world.home():
                await world.write("home", "one")
                await world.caught_up("replica")
            shutil.rmtree(world.folder / "home")
            backup.rename(world.folder / "home")
            if wrote:
                await world.scribble(home, "two")
            async with world.running(home):
                with pytest.raises(ReadOnly, match="restored from a backup"):
                    await world.write("home", "three")
                found = await world.status("home")
                assert (found.state, "rejoin this one" in found.why) == ("unsure", True)
            async with world.running(home, alone=True):
                await world.write("home", "three")

    asyncio.run(scenario())
    assert len(events(caplog, "home_set_back")) == 1


def test_a_home_that_lost_its_root_cannot_know_and_takes_no_changes(world):
    async def scenario():
        home = world.config("home", peers=("replica",))
        async with world.home():
            pass
        root = await world.artifact(home, "root")
        lost = root.rename(world.folder / "root")
        async with world.running(home):
            with pytest.raises(ReadOnly, match="nobody's root can be checked"):
                await world.write("home", "one")
            lost.rename(root)
            async with world.running(world.config("replica", follows=("home",))):
                await world.until("home", lambda found: found.state == "home")
                await world.write("home", "one")

    asyncio.run(scenario())


def test_what_the_role_file_says_outlasts_the_settings(world):
    role = RegionRole(role="fenced", epoch=1, homes=(world.url("elsewhere"),), divergent="x")

    async def scenario():
        async with world.home():
            await world.write("home", "one")
        RoleFile(world.folder / "home").write(role)
        async with world.running(world.config("home"), alone=True):
            with pytest.raises(ReadOnly, match=world.url("elsewhere")):
                await world.write("home", "refused")

    asyncio.run(scenario())
