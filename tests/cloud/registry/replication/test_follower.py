"""The follower against a world that loses, repeats and reorders, with restarts, promotions, forgers."""

from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.registry.documents import Entry
from cloud.registry.replication.follower import (
    Answered,
    Ask,
    Command,
    Copied,
    Copy,
    Event,
    Failed,
    Follower,
    Ingest,
    Ingested,
    Note,
    Pace,
    RootChanged,
    Woke,
    step,
)
from cloud.registry.replication.verdict import judge
from tests.cloud.registry.replication.chains import answer_of, end_of, grown, promoted

PACE = Pace(wait_s=20.0, pause_s_min=0.5, pause_s_max=30.0)
LOG = grown([], 6)
RNG = Random(1)


def started(*urls: str, log: list[Entry] | None = None) -> tuple[Follower, tuple[Command, ...]]:
    state = Follower(urls or ("home",), end_of(log or []), PACE)
    return step(state, Woke(), 0.0, RNG)


def good(state: Follower, log: list[Entry], limit: int = 1000) -> Answered:
    answer = answer_of(log, state.head.seq, limit)
    return Answered(state.generation, judge(state.head, answer, epoch=1, signed=True))


def only(commands: tuple[Command, ...]) -> Command:
    (command,) = [one for one in commands if not isinstance(one, Note)]
    return command


def test_it_asks_at_once_without_waiting_then_waits():
    state, commands = started(log=LOG)
    assert only(commands) == Ask(1, "home", end_of(LOG), 0.0)
    state, commands = step(state, good(state, LOG), 0.0, RNG)
    assert only(commands) == Ask(2, "home", end_of(LOG), 20.0)
    assert Note("home", None) in commands


def test_artifacts_come_before_the_entries_that_need_them():
    state, _ = started()
    state, commands = step(state, good(state, LOG), 0.0, RNG)
    assert only(commands) == Copy(state.generation, "home", tuple(LOG))
    assert state.behind == 6
    state, commands = step(state, Copied(state.generation), 0.0, RNG)
    assert only(commands) == Ingest(state.generation, tuple(LOG))
    state, commands = step(state, Ingested(state.generation, end_of(LOG)), 0.0, RNG)
    assert only(commands) == Ask(state.generation, "home", end_of(LOG), 20.0)
    assert state.behind == 0


def test_an_answer_to_an_older_question_changes_nothing():
    state, _ = started()
    old = good(state, LOG)
    state, _ = step(state, old, 0.0, RNG)
    assert step(state, old, 0.0, RNG) == (state, ())
    copied = Copied(state.generation)
    state, _ = step(state, copied, 0.0, RNG)
    assert step(state, copied, 0.0, RNG) == (state, ())
    failed = Failed(state.generation, "copy", "late")
    state, _ = step(state, Ingested(state.generation, end_of(LOG)), 0.0, RNG)
    assert state.phase == "asking"
    for late in (old, copied, failed):  # the next question is out
        assert step(state, late, 0.0, RNG) == (state, ())


def test_an_event_of_the_right_generation_in_the_wrong_phase_changes_nothing():
    state, _ = started()
    for event in (Copied(state.generation), Ingested(state.generation, end_of(LOG))):
        assert step(state, event, 0.0, RNG) == (state, ())


def test_the_next_url_is_asked_at_once_and_all_again_after_a_pause():
    state, _ = started("one", "two")
    state, commands = step(state, Failed(state.generation, "unreachable", "cut"), 5.0, RNG)
    assert only(commands) == Ask(2, "two", state.head, 0.0)
    state, commands = step(state, Failed(state.generation, "unreachable", "cut"), 5.0, RNG)
    assert commands == (Note("two", "unreachable", "cut"),)
    assert state.phase == "pausing"
    assert state.due_at is not None
    assert 5.5 <= state.due_at <= 6.0
    assert step(state, Woke(), 5.1, RNG) == (state, ())  # not yet
    _, commands = step(state, Woke(), state.due_at, RNG)
    assert only(commands) == Ask(4, "one", state.head, 0.0)


def test_pauses_grow_and_are_bounded():
    state, _ = started()
    pauses = []
    now = 0.0
    for _ in range(60):
        state, _ = step(state, Failed(state.generation, "unreachable", ""), now, Random(2))
        assert state.due_at is not None
        pauses.append(state.due_at - now)
        now = state.due_at
        state, _ = step(state, Woke(), now, RNG)
    assert min(pauses) >= 0.5
    assert max(pauses) <= 30.5
    assert max(pauses) > 20


def test_a_home_that_is_back_is_preferred_again_after_a_while():
    state, _ = started("one", "two", log=LOG)
    state, _ = step(state, Failed(state.generation, "unreachable", ""), 0.0, RNG)
    state, commands = step(state, good(state, LOG), 1.0, RNG)
    assert only(commands) == Ask(state.generation, "two", state.head, 20.0)
    _, commands = step(state, good(state, LOG), 21.0, RNG)
    assert only(commands).url == "two"
    state, commands = step(state, good(state, LOG), 31.0, RNG)
    assert only(commands) == Ask(state.generation, "one", state.head, 0.0)


def test_a_fork_stops_it_for_good_and_says_what_to_do():
    state, _ = started("home", "other", log=LOG)
    fork = grown(LOG[:4], 4, "b")
    state, commands = step(state, good(state, fork), 0.0, RNG)
    assert state.phase == "forked"
    (note,) = commands
    assert isinstance(note, Note)
    assert note.trouble == "forked"
    assert "rejoin" in state.why
    failed = Failed(state.generation, "unreachable", "late")
    for event in (Woke(), RootChanged("home"), Copied(state.generation), failed):
        assert step(state, event, 1e9, RNG) == (state, ())


def test_a_newer_root_ends_what_is_under_way_and_its_registry_is_asked():
    state, _ = started("one", "two", log=LOG)
    state, _ = step(state, Failed(state.generation, "unreachable", ""), 0.0, RNG)
    state, _ = step(state, good(state, grown(LOG, 2)), 0.0, RNG)
    assert state.phase == "copying"
    old = state.generation
    state, commands = step(state, RootChanged("one"), 0.0, RNG)
    assert only(commands) == Ask(state.generation, "one", end_of(LOG), 0.0)
    assert state.entries == ()
    assert step(state, Copied(old), 0.0, RNG) == (state, ())


def test_a_newer_root_does_not_end_what_is_being_ingested():
    state, _ = started()
    state, _ = step(state, good(state, LOG), 0.0, RNG)
    state, _ = step(state, Copied(state.generation), 0.0, RNG)
    assert step(state, RootChanged("home"), 0.0, RNG) == (state, ())


def test_its_own_store_that_fails_is_no_reason_to_ask_another():
    state, _ = started("one", "two")
    state, _ = step(state, good(state, LOG), 0.0, RNG)
    state, _ = step(state, Copied(state.generation), 0.0, RNG)
    state, commands = step(state, Failed(state.generation, "ingest", "disk full"), 0.0, RNG)
    assert state.phase == "pausing"
    assert commands == (Note("one", "ingest", "disk full"),)


# A world: homes with logs, a store that outlasts restarts, and everything that can go wrong


@dataclass
class World:
    rng: Random
    logs: dict[str, list[Entry]]  # by URL
    epoch: int = 1  # of the root that is trusted here
    stored: list[Entry] = field(default_factory=list)
    copied: set[int] = field(default_factory=set)  # seq of entries whose artifacts are here
    mailbox: list[Event] = field(default_factory=list)
    now: float = 0.0
    stormy: bool = True

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """kill -9: events under way are lost, what was committed stays."""
        self.mailbox.clear()
        urls = tuple(self.logs)
        self.state = Follower(urls, end_of(self.stored), PACE, due_at=self.now)

    def act(self, command: Command) -> None:
        storm = self.stormy and self.rng.random() < 0.3
        match command:
            case Ask(generation=generation, url=url, after=after):
                if storm:
                    self.post(Failed(generation, "unreachable", "cut"))
                    return
                limit = self.rng.randint(1, 4)
                answer = answer_of(self.logs[url], after.seq, limit)
                signed = answer.head.epoch == self.epoch and url != "forger"
                verdict = judge(after, answer, epoch=self.epoch, signed=signed)
                self.post(Answered(generation, verdict))
            case Copy(generation=generation, entries=entries):
                for entry in entries:
                    if storm and self.rng.random() < 0.5:
                        self.post(Failed(generation, "copy", "cut"))
                        return
                    self.copied.add(entry.seq)
                self.post(Copied(generation))
            case Ingest(generation=generation, entries=entries):
                assert {entry.seq for entry in entries} <= self.copied, "seen before it is here"
                here = len(self.stored)
                known = [entry for entry in entries if entry.seq <= here]
                assert known == self.stored[entries[0].seq - 1 : entries[-1].seq], "a fork"
                assert entries[0].seq <= here + 1, "a gap"
                self.stored += entries[len(known) :]  # as `Catalog.ingest` does
                if not (storm and self.rng.random() < 0.5):  # else killed before it is told
                    self.post(Ingested(generation, end_of(self.stored)))
                else:
                    self.restart()
            case Note():
                return

    def post(self, event: Event) -> None:
        if self.stormy and self.rng.random() < 0.2:
            self.mailbox.append(event)  # it comes twice
        self.mailbox.append(event)
        if self.stormy and self.rng.random() < 0.2:
            self.rng.shuffle(self.mailbox)

    def turn(self) -> None:
        """One event: what waits, else the time that is due."""
        if self.mailbox:
            event = self.mailbox.pop(0)
        elif self.state.due_at is not None:
            self.now = max(self.now, self.state.due_at)
            event = Woke()
        else:
            event = Failed(self.state.generation, "unreachable", "its answer was lost")
        if self.stormy:
            match self.rng.randint(0, 30):
                case 0:
                    self.restart()
                    return
                case 1:
                    event = RootChanged(self.rng.choice(list(self.logs)))
        self.state, commands = step(self.state, event, self.now, self.rng)
        for command in commands:
            self.act(command)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 25), st.booleans())
def test_whatever_is_lost_repeated_or_killed_the_log_is_the_homes(seed, length, has_others):
    rng = Random(seed)
    home = grown([], length)
    logs = {"home": home}
    if has_others:
        logs = {"forger": grown([], 30, "evil"), "home": home, "lagging": home[: length // 2]}
    world = World(rng, logs)
    for _ in range(200):
        if rng.random() < 0.05:
            home[:] = grown(home, 1)
        world.turn()
        assert world.stored == home[: len(world.stored)]
    world.stormy = False
    for _ in range(40 + 12 * len(home)):
        world.turn()
    assert world.stored == home
    assert world.state.behind == 0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(0, 12))
def test_after_a_promotion_nobody_follows_the_old_home(seed, shared, old_only):
    """The replica had no entry that only the old home has: it ends with the new home's log."""
    rng = Random(seed)
    common = grown([], shared)
    old, new = grown(common, old_only, "old"), grown(promoted(common), 5, "new")
    world = World(rng, {"old": old, "new": new}, stored=common[: rng.randint(0, shared)], epoch=2)
    world.restart()
    for _ in range(300):
        world.turn()
        assert world.stored == new[: len(world.stored)]
    world.stormy = False
    for _ in range(300):
        world.turn()
    assert world.stored == new


def test_entries_that_the_new_home_never_had_are_a_fork_not_overwritten():
    common = grown([], 4)
    old, new = grown(common, 2, "old"), grown(promoted(common), 5, "new")
    world = World(Random(1), {"new": new}, stored=list(old), epoch=2, stormy=False)
    world.restart()
    for _ in range(10):
        world.turn()
    assert world.state.phase == "forked"
    assert world.stored == old
