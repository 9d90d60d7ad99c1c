"""What a cycle takes from the feedback store: the samples of the devices that get the version."""

import asyncio
from collections.abc import Mapping

import pytest

from cloud.feedback.documents import DataSetSpec
from cloud.learning.documents import LoopSettings
from cloud.learning.loop import commands as c
from cloud.learning.loop import events as e
from cloud.learning.loop.record import data_spec
from cloud.learning.loop.sample_hand import SampleHand
from cloud.learning.loop.wishes import unlabelled
from shared.errors import Refused
from shared.wire.envelope import Payload
from tests.cloud.feedback.world import MODEL, NOW, World, row, sample_of, world

GROUPS = {"north": ("cam-1", "cam-2"), "empty": ()}


@pytest.fixture
def here(tmp_path):
    with world(f"sqlite:///{tmp_path / 'f.db'}", tmp_path) as found:
        found.write(*(
            row(n, device=f"cam-{n % 4}", label=n // 4 % 3, at=NOW + n) for n in range(80)
        ))  # fmt: skip
        yield found


def hand(
    here: World, groups: Mapping[str, tuple[str, ...]] = GROUPS, labels_read_max: int = 1000,
    **loop: object,
) -> SampleHand:  # fmt: skip
    settings = LoopSettings.model_validate({"model": MODEL, "teacher": "tiny-cloud", **loop})

    async def devices_of(group: str) -> tuple[str, ...]:
        return groups[group]

    return SampleHand(here.store, devices_of, lambda _: settings, labels_read_max, lambda: NOW)


def count(here: World, group: str, **spec: object) -> int:
    command = c.Count(spec=DataSetSpec(model=MODEL, **spec), teacher="tiny-cloud", group=group)
    return asyncio.run(hand(here).counted(command)).samples


def test_a_group_takes_the_samples_of_its_own_devices(here):
    assert count(here, "all") == 80
    assert count(here, "north") == 40
    built = c.Build(name="north-1", spec=DataSetSpec(model=MODEL), group="north")
    made = asyncio.run(hand(here).built(built)).data_set
    assert made.spec.devices == ("cam-1", "cam-2")
    assert set(here.rows(made.sha256).devices) == {"cam-1", "cam-2"}


def test_devices_or_sites_that_are_named_say_it_alone(here):
    assert count(here, "north", devices=("cam-0", "cam-1", "cam-3")) == 60
    here.store.keep_sites({"cam-0": "lyon", "cam-3": "nice"})
    assert count(here, "north", sites=("lyon", "nice")) == 40
    assert count(here, "all", sites=("lyon", "")) == 60


def test_a_group_without_devices_is_refused_in_words(here):
    with pytest.raises(Refused, match="group empty has no devices"):
        count(here, "empty")


def new_since(here: World, since: float | None, **loop: object) -> int:
    return asyncio.run(hand(here, **loop).new_since(MODEL, since))


def test_new_samples_are_those_that_the_loop_would_take(here):
    assert new_since(here, None) == 80
    assert new_since(here, NOW + 60) == 20
    assert new_since(here, None, group="north") == 40
    assert new_since(here, NOW + 60, group="north") == 10
    of_one = DataSetSpec(model=MODEL, devices=("cam-0",))
    assert new_since(here, NOW + 60, group="north", data=of_one) == 5


def test_samples_before_the_last_cycle_are_not_new_though_the_loop_may_take_them(here):
    long_ago = DataSetSpec(model=MODEL, since=NOW)
    assert new_since(here, NOW + 60, data=long_ago) == 20
    assert new_since(here, None, data=DataSetSpec(model=MODEL, since=NOW + 70)) == 10


def test_of_a_group_without_devices_nothing_is_counted_and_that_is_said(here):
    with pytest.raises(Refused, match="group empty has no devices"):
        new_since(here, None, group="empty")


def test_a_data_set_that_somebody_else_made_by_the_cycles_name_is_not_taken(here):
    theirs = here.store.build("edge-7", DataSetSpec(model=MODEL, holdout_share=0.5), "eve", NOW)
    wanted = c.Build(name="edge-7", spec=DataSetSpec(model=MODEL))
    made = asyncio.run(hand(here).built(wanted)).data_set
    assert (made.number, made.made_by, made.spec) == (2, "loop", wanted.spec)
    assert made.sha256 != theirs.sha256
    later = here.store.build("edge-7", DataSetSpec(model=MODEL, seed=1, rows_max=30), "eve", NOW)
    assert later.number == 3
    assert asyncio.run(hand(here).built(wanted)).data_set == made  # after a crash


def test_a_data_set_of_a_group_is_made_once_though_a_camera_joined_meanwhile(here):
    wanted = c.Build(name="edge-7", spec=DataSetSpec(model=MODEL, seed=1), group="north")
    made = asyncio.run(hand(here).built(wanted)).data_set
    assert made.spec.devices == ("cam-1", "cam-2")
    for groups in ({"north": ("cam-1", "cam-2", "cam-3")}, {"north": ()}, {}):  # or nobody knows
        assert asyncio.run(hand(here, groups).built(wanted)).data_set == made
    assert here.store.data_sets("edge-7") == [made]


def test_a_data_set_of_named_devices_is_no_other_ones(here):
    devices = DataSetSpec(model=MODEL, devices=("cam-1",))
    one = asyncio.run(hand(here).built(c.Build(name="edge-7", spec=devices))).data_set
    for spec, group in ((DataSetSpec(model=MODEL), "all"), (devices, "north")):
        command = c.Build(name="edge-7", spec=spec, group=group)
        found = asyncio.run(hand(here).built(command)).data_set
        assert (found == one) == (spec == devices)


def test_what_another_cloud_model_answered_is_neither_judged_nor_learned_from(here):
    here.write(*(
        row(n, device=f"cam-{n % 4}", label=n // 4 % 3, at=NOW + n, cloud_model="other-cloud")
        for n in range(80, 120)
    ))  # fmt: skip
    assert new_since(here, None) == 80
    settings = LoopSettings.model_validate({"model": MODEL, "teacher": "tiny-cloud"})
    spec = data_spec(settings, None, None)
    counted = asyncio.run(hand(here).counted(c.Count(spec=spec, teacher="tiny-cloud")))
    made = asyncio.run(hand(here).built(c.Build(name="edge-8", spec=spec))).data_set
    assert (counted.samples, made.rows) == (80, 80)
    with pytest.raises(ValueError, match="tiny-cloud teaches"):
        LoopSettings.model_validate(
            {"model": MODEL, "teacher": "tiny-cloud",
             "data": {"model": MODEL, "cloud_model": "other-cloud"}}
        )  # fmt: skip


def test_labels_of_what_another_cloud_model_answered_take_no_place_among_those_that_are_read(here):
    """And the command that a cycle gives lists what counts for it."""
    foreign = [row(n, label=1, at=NOW + n, cloud_model="other-cloud") for n in range(80, 100)]
    here.write(*foreign)
    for n in (*range(10), *range(80, 100)):
        here.store.label("cam-1" if n >= 80 else f"cam-{n % 4}", sample_of(n), 1, "ada", NOW)
    settings = LoopSettings.model_validate({"model": MODEL, "teacher": "tiny-cloud"})
    spec = data_spec(settings, None, None).model_copy(update={"holdout_share": 0.5})
    command = c.Count(spec=spec, teacher="tiny-cloud")
    everything = asyncio.run(hand(here).counted(command)).people
    assert everything != e.Paired()
    assert asyncio.run(hand(here, labels_read_max=10).counted(command)).people == everything
    assert "--cloud-model tiny-cloud" in unlabelled(command)


def test_a_picture_that_came_often_is_one_picture_to_the_teacher_gate(here):
    """A still camera's proves no more than once; nor does one that nobody can read."""
    payload = Payload("raw", "uint8", (4, 4), bytes(range(16)))
    lost = Payload("raw", "uint8", (4, 4), b"too short")
    still = [row(n, device="still", label=1, at=NOW + n, payload=payload) for n in range(200, 240)]
    broken = [row(n, device="still", label=1, at=NOW + n, payload=lost) for n in range(240, 244)]
    here.write(*still, *broken)
    for n in range(200, 244):
        here.store.label("still", sample_of(n), 1, "ada", NOW)
    settings = LoopSettings.model_validate({"model": MODEL, "teacher": "tiny-cloud"})
    spec = data_spec(settings, None, None).model_copy(update={"holdout_share": 0.5})
    counted = asyncio.run(hand(here).counted(c.Count(spec=spec, teacher="tiny-cloud")))
    assert (counted.samples, counted.people.count) == (124, 1)
