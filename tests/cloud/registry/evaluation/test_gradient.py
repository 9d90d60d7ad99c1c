import numpy as np
import pytest

from cloud.registry.evaluation.gradient import Step, stepped
from cloud.registry.evaluation.inputs import domain_of

RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(30, 3)).astype(np.float32)
ROWS = RNG.normal(size=(40, 30)).astype(np.float32)
LABELS = (ROWS @ WEIGHTS).argmax(1).astype(np.int64)
DOMAIN = domain_of(ROWS)
STEP = Step(size=0.05, directions=64, seed=0)


class Linear:
    """A model whose gradient is known; counts what it is asked."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        self.batches.append(len(rows))
        return (rows.astype(np.float32) @ WEIGHTS).astype(np.float32)


def test_a_step_along_the_estimated_gradient_hurts_more_than_a_random_one():
    moved, astray = stepped(ROWS, LABELS, STEP, DOMAIN, Linear())
    model = Linear()
    after, by_chance = ((model(x).argmax(1) == LABELS).mean() for x in (moved, astray))
    assert after < by_chance - 0.2


def test_it_goes_the_way_of_the_true_gradient():
    moved, _ = stepped(ROWS, LABELS, STEP, DOMAIN, Linear())
    logits = ROWS @ WEIGHTS
    odds = np.exp(logits - logits.max(1, keepdims=True))
    odds /= odds.sum(1, keepdims=True)
    true = (odds - np.eye(3)[LABELS]) @ WEIGHTS.T
    inside = (moved > DOMAIN.low) & (moved < DOMAIN.high)
    same = np.sign(moved - ROWS)[inside] == np.sign(true)[inside]
    assert same.mean() > 0.75


def test_no_value_moves_further_than_the_step():
    moved, astray = stepped(ROWS, LABELS, STEP, DOMAIN, Linear())
    for changed in (moved, astray):
        assert np.abs(changed - ROWS).max() <= STEP.size * DOMAIN.span * 1.001


@pytest.mark.parametrize("directions", [1, 32, 33, 100])
def test_queries_are_bounded_and_come_in_batches_of_64(directions):
    model = Linear()
    stepped(ROWS[:3], LABELS[:3], Step(0.05, directions, 0), DOMAIN, model)
    assert sum(model.batches) == 3 * 2 * directions
    assert max(model.batches) <= 64


def test_the_same_seed_takes_the_same_step():
    first, again = (stepped(ROWS[:4], LABELS[:4], STEP, DOMAIN, Linear())[0] for _ in range(2))
    assert np.array_equal(first, again)


def test_images_stay_images():
    images = RNG.integers(0, 256, (2, 30), np.uint8)
    moved, astray = stepped(images, np.array([0, 1]), STEP, domain_of(images), Linear())
    assert moved.dtype == astray.dtype == np.uint8


def test_answers_that_are_not_finite_do_not_make_the_step_nan():
    def broken(rows: np.ndarray) -> np.ndarray:
        return np.full((len(rows), 3), np.nan, np.float32)

    moved, _ = stepped(ROWS[:2], LABELS[:2], STEP, DOMAIN, broken)
    assert np.isfinite(moved).all()
