"""Loops and cycles on both databases: one cycle a model, compare-and-set, bounded."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from cloud.learning.documents import FeatureCheck, LoopSettings, Phase, TriggerKind
from cloud.learning.loop.events import Answered, Refused, RolloutSeen, Stop
from cloud.learning.store.loops import MIGRATIONS, LoopStore
from cloud.learning.store.reading import Unreadable
from cloud.learning.store.settings import LoopsKept
from cloud.rollouts.documents import RolloutStatus
from cloud.training.store.database import LearningDatabase
from shared.errors import Conflict, Overloaded, Unknown
from tests.cloud.learning.loop.cycles import THROUGH, settings

NOW = 1000.0
KEPT = LoopsKept(loops_max=2, cycles_max=3, lines_max=4)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LoopStore]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'learning.db'}"
    else:
        url = request.getfixturevalue("postgres").new_database()
    database = LearningDatabase(url)
    database.open(MIGRATIONS)
    database.open(MIGRATIONS)  # a second process; nothing is left to do
    yield LoopStore(database, KEPT)
    database.close()


def begin(store: LoopStore, now: float = NOW, model: str = "fashion-edge") -> str:
    return store.begin(model, TriggerKind.TIME, "an hour", now).cycle.id


def test_a_loop_is_made_changed_and_removed_by_its_revision(store: LoopStore) -> None:
    assert store.put(settings(), 0, NOW).revision == 1
    with pytest.raises(Conflict, match="of revision 1, not 0"):
        store.put(settings(), 0, NOW)
    changed = store.put(settings(group="lyon"), 1, NOW + 5)
    assert (changed.revision, changed.made_at, changed.settings.group) == (2, NOW, "lyon")
    assert store.loop("fashion-edge") == changed
    with pytest.raises(Conflict):
        store.remove("fashion-edge", 1)
    store.remove("fashion-edge", 2)
    with pytest.raises(Unknown, match="has no loop"):
        store.loop("fashion-edge")


def test_a_declared_loop_that_is_as_declared_is_left_alone(store: LoopStore) -> None:
    store.declare(settings(), NOW)
    store.declare(settings(), NOW)
    assert store.loop("fashion-edge").revision == 1
    store.declare(settings(group="lyon"), NOW)
    assert store.loop("fashion-edge").revision == 2


def test_there_are_no_more_loops_than_may_be(store: LoopStore) -> None:
    for name in ("a", "b"):
        store.put(settings(model=name), None, NOW)
    with pytest.raises(Overloaded, match="delete one first"):
        store.put(settings(model="c"), None, NOW)
    store.put(settings(model="b", group="lyon"), None, NOW)


def test_a_model_has_one_cycle_at_once(store: LoopStore) -> None:
    store.put(settings(), None, NOW)
    name = begin(store)
    with pytest.raises(Conflict, match=f"cycle {name} of fashion-edge runs"):
        begin(store)
    with pytest.raises(Conflict, match="stop it first"):
        store.remove("fashion-edge", None)
    store.step(name, Stop("ann"), NOW + 1)
    assert begin(store) != name


def test_what_a_step_gives_is_kept_and_lines_say_what_happened(store: LoopStore) -> None:
    store.put(settings(), None, NOW)
    name = begin(store)
    revision = store.cycle(name).cycle.revision
    after = store.step(name, Answered(revision, THROUGH[0]), NOW + 1)
    assert store.cycle(name) == after
    assert [one.words for one in store.lines(name)] == ["begun by time: an hour", "data_set"]
    assert store.step(name, Answered(revision, THROUGH[0]), NOW + 2) == after


def test_a_word_on_what_has_moved_on_is_a_conflict(store: LoopStore) -> None:
    store.put(settings(), None, NOW)
    name = begin(store)
    store.step(name, Answered(store.cycle(name).cycle.revision, THROUGH[0]), NOW + 1)
    with pytest.raises(Conflict, match="it has moved on"):
        store.step(name, Stop("ann"), NOW + 2, revision=0)


def test_cycles_are_listed_newest_first_and_forgotten_beyond_the_bound(store: LoopStore) -> None:
    store.put(settings(), None, NOW)
    names = []
    for number in range(5):
        names.append(name := begin(store, NOW + number))
        record = store.cycle(name)
        store.step(name, Answered(record.cycle.revision, Refused("no")), NOW + number)
    begin(store)
    listed = [one.id for one in store.cycles("fashion-edge", None, 10)]
    assert listed[1:] == list(reversed(names))[:3]
    assert [one.id for one in store.cycles("fashion-edge", listed[1], 1)] == [names[3]]
    for look in (store.cycle, store.lines):
        with pytest.raises(Unknown):
            look(names[0])
    with pytest.raises(Unknown):
        store.cycles("fashion-edge", names[0], 10)


def test_samples_that_taught_a_version_that_went_out_are_not_taken_again(store: LoopStore) -> None:
    store.put(settings(watch_s=0), None, NOW)
    name = begin(store, NOW)
    for answer in (*THROUGH, RolloutSeen(RolloutStatus.SUCCEEDED)):
        record = store.cycle(name)
        store.step(name, Answered(record.cycle.revision, answer), NOW + 10)
    assert store.cycle(name).cycle.phase is Phase.DONE
    assert store.cycle(begin(store)).samples_since == NOW + 10


def test_what_was_learned_from_is_not_forgotten_with_old_cycles(store: LoopStore) -> None:
    store.put(settings(watch_s=0), None, NOW)
    done = begin(store, NOW)
    for answer in (*THROUGH, RolloutSeen(RolloutStatus.SUCCEEDED)):
        record = store.cycle(done)
        store.step(done, Answered(record.cycle.revision, answer), NOW + 10)
    for number in range(KEPT.cycles_max + 2):
        store.step(begin(store, NOW + 20 + number), Stop("ann"), NOW + 20 + number)
    name = begin(store, NOW + 50)
    assert store.cycle(name).samples_since == NOW + 10
    assert (
        len(store.cycles("fashion-edge", None, 10)) == KEPT.cycles_max + 2
    )  # with it and the one that runs
    assert store.cycle(done).cycle.phase is Phase.DONE


def test_a_cycle_that_taught_nothing_leaves_its_samples_to_the_next(store: LoopStore) -> None:
    store.put(settings(), None, NOW)
    name = begin(store)
    store.step(name, Stop("ann"), NOW + 1)
    assert store.cycle(begin(store)).samples_since is None


def test_the_log_of_a_cycle_is_bounded(store: LoopStore) -> None:
    store.put(settings(), None, NOW)
    name = begin(store)
    for answer in THROUGH:
        record = store.cycle(name)
        store.step(name, Answered(record.cycle.revision, answer), NOW)
    assert len(store.lines(name)) == KEPT.lines_max


def test_the_newest_check_of_each_model_is_kept(store: LoopStore) -> None:
    def check(model: str, at: float) -> FeatureCheck:
        return FeatureCheck(
            model=model, version="1.0.0", at=at, samples=3, inputs_differ=0, answers_differ=0,
            largest=0.01, agrees=True, words="",
        )  # fmt: skip

    for one in (check("b", 1), check("a", 2), check("b", 3)):
        store.put_check(one)
    assert [(one.model, one.at) for one in store.checks()] == [("a", 2), ("b", 3)]


def test_when_a_threshold_was_fitted_is_kept(store: LoopStore) -> None:
    assert store.refitted_at("fashion-edge") is None
    store.put_refit("fashion-edge", 5.0)
    store.put_refit("fashion-edge", 6.0)
    assert store.refitted_at("fashion-edge") == 6.0


def test_settings_are_read_back_as_they_were(store: LoopStore) -> None:
    one: LoopSettings = settings()
    store.put(one, None, NOW)
    assert store.loops()[0].settings == one


def broken(store: LoopStore, table: str, where: str) -> None:
    """As another version of this process would leave it."""
    change = text(f"UPDATE {table} SET document = '[]' WHERE {where}")
    store._database.write(lambda connection: connection.execute(change))


def test_a_loop_that_cannot_be_read_is_named_and_hides_no_other(store: LoopStore) -> None:
    store.put(settings(model="a"), None, NOW)
    store.put(settings(model="b"), None, NOW)
    broken(store, "learning_loops", "model = 'a'")
    assert [one.settings.model for one in store.loops()] == ["b"]
    with pytest.raises(Unreadable, match="the loop of a is not as this version keeps it"):
        store.loop("a")
    with pytest.raises(Conflict):
        store.put(settings(model="a"), 2, NOW)
    assert store.put(settings(model="a"), 1, NOW).revision == 2
    broken(store, "learning_loops", "model = 'a'")
    store.declare(settings(model="a"), NOW)
    broken(store, "learning_loops", "model = 'a'")
    assert store.put(settings(model="a"), 0, NOW).revision == 4  # who lists the loops sees none
    broken(store, "learning_loops", "model = 'a'")
    store.remove("a", 4)


def test_a_cycle_that_cannot_be_read_is_named_and_hides_no_other(store: LoopStore) -> None:
    for model in ("a", "b"):
        store.put(settings(model=model), None, NOW)
    gone, there = begin(store, model="a"), begin(store, model="b")
    broken(store, "learning_cycles", f"id = '{gone}'")
    assert [one.cycle.id for one in store.running()] == [there]
    assert store.cycles("a", None, 10) == []
    assert store.running_of("a") == (gone, None)
    for look in (lambda: store.cycle(gone), lambda: store.step(gone, Stop("ann"), NOW)):
        with pytest.raises(Unreadable, match=f"cycle {gone} is not as this version keeps it"):
            look()
    with pytest.raises(Conflict, match=f"cycle {gone} of a runs: it cannot be read"):
        begin(store, model="a")
    assert [one.words for one in store.lines(gone)] == ["begun by time: an hour"]


def test_a_cycle_that_runs_and_cannot_be_read_is_given_up_with_its_loop_alone(
    store: LoopStore,
) -> None:
    for model in ("a", "b"):
        store.put(settings(model=model), None, NOW)
    gone, there = begin(store, model="a"), begin(store, model="b")
    broken(store, "learning_cycles", f"id = '{gone}'")
    with pytest.raises(Conflict, match="of revision 1, not 2"):
        store.remove("a", 2)
    with pytest.raises(Conflict, match="stop it first"):
        store.remove("b", 1)
    store.remove("a", 1)
    for look in (store.cycle, store.lines):
        with pytest.raises(Unknown):
            look(gone)
    store.put(settings(model="a"), 0, NOW)
    assert begin(store, model="a") not in {gone, there}
    assert store.last("a") is None


def test_a_loop_whose_last_sample_was_learned_from_begins_no_cycle_and_says_why(
    store: LoopStore,
) -> None:
    ends = settings(watch_s=0, data={"model": "fashion-edge", "until": NOW + 5})
    store.put(ends, None, NOW)
    name = begin(store, NOW)
    for answer in (*THROUGH, RolloutSeen(RolloutStatus.SUCCEEDED)):
        record = store.cycle(name)
        store.step(name, Answered(record.cycle.revision, answer), NOW + 10)
    assert store.cycle(name).cycle.phase is Phase.DONE
    words = r"no sample is left .* from 1010 .learned from before. until 1005 .data.until."
    with pytest.raises(Conflict, match=words):
        begin(store)
    with pytest.raises(Conflict, match=words):
        store.check_times(ends)
    assert store.running() == []
