"""What a replica does next. Pure: `step(state, event, now, rng) -> (state, commands)`.

Asking, copying, ingesting, in this order and over again; a batch is taken in only when what it needs
is here. Every command carries a generation, and an event of another generation changes nothing: so an
answer may be lost, come twice, or come late. All that must stand a restart is the log itself.
"""

from dataclasses import dataclass, replace
from typing import Literal, assert_never

from cloud.registry.documents import Entry, Head
from cloud.registry.replication.verdict import Fault, Fits, Forked, Unfit, Verdict
from shared.backoff import Jitter, pause_s

Trouble = Fault | Literal["unreachable", "refused", "copy", "ingest"]
Phase = Literal["asking", "copying", "ingesting", "pausing", "forked"]


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds."""

    wait_s: float
    pause_s_min: float
    pause_s_max: float


# Commands


@dataclass(frozen=True, slots=True)
class Ask:
    """This registry for newer roots, then for the entries after `after`."""

    generation: int
    url: str
    after: Head
    wait_s: float


@dataclass(frozen=True, slots=True)
class Copy:
    """The artifacts that these entries need and that are not here, from this registry."""

    generation: int
    url: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Ingest:
    generation: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """For the log and the counters; `trouble` None: this registry is followed again."""

    url: str
    trouble: Trouble | Literal["forked"] | None
    why: str = ""


Command = Ask | Copy | Ingest | Note

# Events


@dataclass(frozen=True, slots=True)
class Answered:
    """`verdict`: of `judge`, against the `after` of the question."""

    generation: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Copied:
    generation: int


@dataclass(frozen=True, slots=True)
class Ingested:
    generation: int
    head: Head


@dataclass(frozen=True, slots=True)
class Failed:
    generation: int
    trouble: Trouble
    why: str


@dataclass(frozen=True, slots=True)
class Woke:
    """The start, or `due_at` has come."""


@dataclass(frozen=True, slots=True)
class RootChanged:
    """`url` had a newer root, which is verified: what is under way may be a stale home's."""

    url: str


Event = Answered | Copied | Ingested | Failed | Woke | RootChanged


@dataclass(frozen=True, slots=True)
class Follower:
    """Build it anew at each start, from the log's end."""

    urls: tuple[str, ...]
    head: Head
    pace: Pace
    phase: Phase = "pausing"
    generation: int = 0
    at: int = 0  # of the urls
    entries: tuple[Entry, ...] = ()  # under way
    due_at: float | None = 0.0  # when `Woke` is due
    rounds: int = 0  # of all urls in a row in which none was any good
    followed: bool = False  # the last question to `url` had a good answer
    newest: int = 0  # the last entry that a home spoke of
    back_at: float = 0.0  # when the first url is tried again, if another is followed
    why: str = "starting"

    @property
    def url(self) -> str:
        return self.urls[self.at]

    @property
    def behind(self) -> int:
        """Entries that are known to be missing."""
        return max(0, self.newest - self.head.seq)


Step = tuple[Follower, tuple[Command, ...]]


def step(state: Follower, event: Event, now: float, rng: Jitter) -> Step:
    """Decide. `now` in seconds of any clock that does not jump."""
    match event:
        case Woke():
            if state.phase != "pausing" or state.due_at is None or now < state.due_at:
                return state, ()
            return _ask(state, now)
        case RootChanged(url=url):
            if state.phase in {"forked", "ingesting"}:
                return state, ()  # what is being ingested was signed when it was judged
            at = state.urls.index(url)
            return _ask(replace(state, at=at, followed=False, entries=()), now)
    if event.generation != state.generation or state.phase in {"forked", "pausing"}:
        return state, ()
    match event:
        case Answered():
            return _answered(state, event, now, rng) if state.phase == "asking" else (state, ())
        case Copied():
            if state.phase != "copying":
                return state, ()
            state = replace(state, phase="ingesting", generation=state.generation + 1)
            return state, (Ingest(state.generation, state.entries),)
        case Ingested(head=head):
            if state.phase != "ingesting":
                return state, ()
            return _ask(replace(state, head=head, entries=()), now)
        case Failed(trouble=trouble, why=why):
            return _failed(state, trouble, why, now, rng)
        case _:
            assert_never(event)


def _ask(state: Follower, now: float) -> Step:
    at = state.at
    if at and state.followed and now >= state.back_at:
        state = replace(state, at=0, followed=False)
    # an idle home answers a first question at once: whether it can be reached is known then
    wait_s = state.pace.wait_s if state.followed else 0.0
    state = replace(
        state, phase="asking", generation=state.generation + 1, due_at=None,
        back_at=now + state.pace.pause_s_max if not state.followed else state.back_at,
    )  # fmt: skip
    return state, (Ask(state.generation, state.url, state.head, wait_s),)


def _answered(state: Follower, event: Answered, now: float, rng: Jitter) -> Step:
    match event.verdict:
        case Unfit(fault=fault, why=why):
            return _failed(state, fault, why, now, rng)
        case Forked(why=why):
            state = replace(
                state, phase="forked", generation=state.generation + 1, due_at=None,
                followed=False, why=f"{state.url}: {why}",
            )  # fmt: skip
            return state, (Note(state.url, "forked", why),)
        case Fits(entries=entries, newest=newest):
            notes = () if state.followed else (Note(state.url, None),)
            state = replace(state, followed=True, rounds=0, newest=newest, why="")
            if not entries:
                state, asked = _ask(state, now)
                return state, (*notes, *asked)
            state = replace(
                state, phase="copying", generation=state.generation + 1, entries=entries
            )
            return state, (*notes, Copy(state.generation, state.url, entries))
        case _:
            assert_never(event.verdict)


def _failed(state: Follower, trouble: Trouble, why: str, now: float, rng: Jitter) -> Step:
    """On to the next of the urls; a pause once all were asked in vain, or where it is our own."""
    note = Note(state.url, trouble, why)
    last = state.at + 1 == len(state.urls)
    state = replace(state, entries=(), followed=False, why=f"{state.url}: {why}")
    if not last and trouble != "ingest":
        state, asked = _ask(replace(state, at=state.at + 1), now)
        return state, (note, *asked)
    pace = state.pace
    pause = pause_s(state.rounds + 1, pace.pause_s_min, pace.pause_s_max, rng, pace.pause_s_min)
    state = replace(
        state, phase="pausing", at=0, rounds=state.rounds + 1, generation=state.generation + 1,
        due_at=now + pause,
    )  # fmt: skip
    return state, (note,)
