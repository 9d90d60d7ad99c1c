from random import Random

import pytest

from cloud.registry.client.retrying import Tries, after_failure
from cloud.registry.client.settings import ClientSettings
from shared.errors import (
    Conflict,
    DeadlineMissed,
    Disconnected,
    HybridgeError,
    Malformed,
    Overloaded,
    Unavailable,
)

SETTINGS = ClientSettings(patience_s=10.0, pause_s_min=0.5, pause_s_max=4.0)


def following(
    tries: Tries, error: HybridgeError, now: float = 0.0, *, done: bool = False, again: bool = True
) -> tuple[Tries, float] | None:
    return after_failure(
        tries, error, may_have_been_done=done, is_repeatable=again, now=now, settings=SETTINGS,
        rng=Random(1),
    )  # fmt: skip


def test_pauses_double_and_are_spread() -> None:
    tries, pauses = Tries.starting(0.0, SETTINGS), []
    for _ in range(200):
        after = following(tries, Disconnected("gone"))
        assert after is not None
        tries, pause = after
        pauses.append(pause)
    assert pauses[0] <= 0.5
    assert max(pauses) <= 4.0
    assert tries.failed == 200


def test_the_patience_ends() -> None:
    tries = Tries.starting(0.0, SETTINGS)
    assert following(tries, Unavailable("gone"), now=9.0) is not None
    assert following(tries, Unavailable("gone"), now=10.0) is None


def test_what_the_registry_asked_for_is_waited_or_given_up() -> None:
    tries = Tries.starting(0.0, SETTINGS)
    after = following(tries, Overloaded("full", 3.0))
    assert after is not None
    assert 3.0 <= after[1] <= 3.5
    assert following(tries, Overloaded("full", 3.0), now=8.0) is None


@pytest.mark.parametrize("error", [Conflict("first"), Malformed("bad")])
def test_a_refusal_is_final(error: HybridgeError) -> None:
    assert following(Tries.starting(0.0, SETTINGS), error) is None


def test_what_may_have_been_done_is_not_done_twice() -> None:
    tries = Tries.starting(0.0, SETTINGS)
    assert following(tries, Disconnected("cut"), done=True, again=False) is None
    assert following(tries, DeadlineMissed("late"), again=False) is None
    assert following(tries, Disconnected("not reached"), again=False) is not None
    assert following(tries, Disconnected("cut"), done=True, again=True) is not None
