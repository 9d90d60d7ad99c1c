"""Whether an answer of the log continues what is here. Pure.

Who signed comes first: only the snapshot key of the root that is trusted now speaks for the home, so
a home of a lower epoch, whose key that root no longer names, is heard by nobody.
"""

from dataclasses import dataclass
from typing import Literal

from cloud.registry.catalog.chain import verify_chain
from cloud.registry.documents import Entry, Head
from cloud.registry.replication.log_answer import LogAnswer
from shared.errors import Refused

Fault = Literal["lower_epoch", "unknown_epoch", "unsigned", "gap", "broken", "behind"]


@dataclass(frozen=True, slots=True)
class Fits:
    """`entries` may be copied for and taken in; none: this is all that there is."""

    entries: tuple[Entry, ...]
    head: Head
    newest: int


@dataclass(frozen=True, slots=True)
class Unfit:
    """Nothing of it is taken; another registry, or the same one later, may give a better one."""

    fault: Fault
    why: str


@dataclass(frozen=True, slots=True)
class Forked:
    """Its home vouches for another entry where this log has its own: only a person can choose."""

    why: str


Verdict = Fits | Unfit | Forked


def judge(own: Head, answer: LogAnswer, *, epoch: int, signed: bool) -> Verdict:
    """Hold an answer to "what is after `own`?" against it.

    `epoch`: of the root that is trusted; `signed`: by a snapshot key of that root.
    """
    head = answer.head
    if head.epoch < epoch:
        return Unfit(
            "lower_epoch",
            f"it is of epoch {head.epoch}, and a verified root says {epoch}: another registry was "
            "promoted; rejoin that one as a replica (hybridge registry rejoin)",
        )
    if head.epoch > epoch:
        return Unfit(
            "unknown_epoch", f"no verified root names its epoch {head.epoch}, only {epoch}"
        )
    if not signed:
        return Unfit("unsigned", f"entry {head.seq} is not signed by a snapshot key of the root")
    if answer.entries:
        if fault := _broken(own, answer):
            return fault
        here, there = own.sha256, answer.entries[0].previous
    elif head.seq == own.seq:
        here, there = own.sha256, head.sha256
    elif head.seq > own.seq:
        return Unfit("gap", f"no entries after {own.seq}, and a head at {head.seq}")
    else:
        return Unfit("behind", f"its log ends at {head.seq}, this one at {own.seq}")
    if here != there:
        return Forked(
            f"entry {own.seq} is {here[:12]} here and {there[:12]} there; what only this registry "
            "has is kept aside by: hybridge registry rejoin"
        )
    return Fits(answer.entries, head, max(answer.newest, head.seq))


def _broken(own: Head, answer: LogAnswer) -> Unfit | None:
    """Whether the entries hang together, and end in the head. Where they hang on is asked later."""
    first = answer.entries[0]
    if first.seq != own.seq + 1:
        return Unfit("gap", f"asked for what is after {own.seq}, got {first.seq}")
    # where it hangs on another entry, how its epoch began cannot be seen from here
    start = own if first.previous == own.sha256 else _before(first)
    try:
        end = verify_chain(start, answer.entries)
    except Refused as error:
        return Unfit("broken", str(error))
    head = answer.head
    if (end.seq, end.sha256) != (head.seq, head.sha256) or end.epoch > head.epoch:
        return Unfit("broken", f"the signed head is {head.seq}, the entries end at {end.seq}")
    return None


def _before(entry: Entry) -> Head:
    return Head(epoch=entry.epoch, seq=entry.seq - 1, sha256=entry.previous)
