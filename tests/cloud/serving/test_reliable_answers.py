"""Cache, breaker, model, stale answer, rule, in that order: through real pools and real models."""

import time
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cloud.serving.caches.feature_cache import FeatureCache
from cloud.serving.caches.result_cache import ResultCache
from cloud.serving.caches.settings import FeatureCacheSettings, ResultCacheSettings
from cloud.serving.failures import Broken
from cloud.serving.fallback_settings import Reliability
from cloud.serving.inference import Answer, Inference
from cloud.serving.pool import ModelPool
from cloud.serving.queues import Queues
from cloud.serving.refusal import QueueFull
from cloud.serving.reliability_metrics import ReliabilityMetrics
from shared.errors import DeadlineMissed, Unavailable
from tests.cloud.serving.pools import play, running, tiny
from tests.split_bundle import write_backbone, write_head
from tests.tiny_bundle import sure_image, tiny_logits

RULE = {"kind": "label", "label": "class-2", "confidence": 0.6}
SOON_STALE = {"policy": "arc", "fresh_s": 1e-9, "stale_s": 3600}


class Tier:
    """The core over a pool, with settings."""

    def __init__(
        self, pool: ModelPool, cache: dict[str, object] | None = None, **reliability: object
    ) -> None:
        self.pool, self.registry = pool, CollectorRegistry()
        self.cache = ResultCache(ResultCacheSettings.model_validate(cache or {"policy": "arc"}))
        self.features = FeatureCache(FeatureCacheSettings())
        self.inference = Inference(
            {"tiny": Reliability.model_validate(reliability)},
            self.cache,
            ReliabilityMetrics(self.registry),
            Queues(pool, self.features).of,
        )

    async def ask(self, label: int = 0, model: str = "tiny", within_s: float = 60.0) -> Answer:
        rows = sure_image(label)[None]
        served = self.pool.find(model)
        return await self.inference.answer(served, rows, time.monotonic() + within_s)

    def breaks(self, model: str = "tiny") -> None:
        """Every batch fails from now on."""
        self.pool.find(model).model.close()

    @property
    def figures(self) -> str:
        return generate_latest(self.registry).decode()


def said(answer: Answer) -> tuple[int, str]:
    return int(answer.outputs.probabilities[0].argmax()), answer.source


def test_a_second_time_the_cache_answers_and_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tiny(tmp_path)) as pool:
            tier = Tier(pool)
            first, second = await tier.ask(), await tier.ask()
            assert (first.source, second.source) == ("cloud", "cache")
            assert np.array_equal(first.outputs.logits, second.outputs.logits)

    play(scenario)


def test_after_a_swap_the_new_version_answers_for_itself(tmp_path: Path) -> None:
    first, _ = tiny(tmp_path, version="1.0.0"), tiny(tmp_path, version="2.0.0")

    async def scenario() -> None:
        async with running(first, folder=tmp_path) as pool:
            tier = Tier(pool)
            assert [said(await tier.ask()) for _ in range(2)] == [(1, "cloud"), (1, "cache")]
            await pool.load("tiny", "2.0.0")
            assert [said(await tier.ask()) for _ in range(2)] == [(2, "cloud"), (2, "cache")]

    play(scenario)


def test_what_a_broken_model_said_before_comes_before_the_rule(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tiny(tmp_path)) as pool:
            tier = Tier(pool, SOON_STALE, fallback={"rule": RULE})
            assert said(await tier.ask(0)) == (1, "cloud")
            tier.breaks()
            assert said(await tier.ask(0)) == (1, "cache")
            assert said(await tier.ask(1)) == (2, "rule")
            assert 'failure="fault",model="tiny",source="rule"} 1.0' in tier.figures

    play(scenario)


def test_a_model_that_keeps_failing_is_left_alone_and_the_rule_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tiny(tmp_path)) as pool:
            breaker = {"calls_min": 5, "pause_s": 30}
            tier = Tier(pool, {"policy": "off"}, fallback={"rule": RULE}, breaker=breaker)
            tier.breaks()
            assert [said(await tier.ask()) for _ in range(5)] == [(2, "rule")] * 5
            ran_s = pool.busy_s
            assert [said(await tier.ask()) for _ in range(3)] == [(2, "rule")] * 3
            assert pool.busy_s == ran_s  # nothing was tried
            assert 'hybridge_breaker_open{model="tiny"} 1.0' in tier.figures
            assert 'hybridge_breaker_held_back_total{model="tiny"} 3.0' in tier.figures

    play(scenario)


def test_without_a_fallback_the_fault_itself_and_then_a_prompt_refusal(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tiny(tmp_path)) as pool:
            tier = Tier(pool, breaker={"calls_min": 2, "pause_s": 30})
            tier.breaks()
            for _ in range(2):
                with pytest.raises(Unavailable, match="session is closed"):
                    await tier.ask()
            with pytest.raises(Broken) as refusal:
                await tier.ask()
            assert 29 < (refusal.value.retry_after_s or 0) <= 30

    play(scenario)


@pytest.mark.parametrize("on", [[], ["overload", "deadline"]])
def test_an_overload_stays_a_refusal_unless_asked_otherwise(tmp_path: Path, on: list[str]) -> None:
    async def scenario() -> None:
        async with running(tiny(tmp_path)) as pool:
            tier = Tier(pool, fallback={"rule": RULE, "on": ["fault", *on]})
            if on:
                assert said(await tier.ask(within_s=1e-9)) == (2, "rule")
            else:
                with pytest.raises((QueueFull, DeadlineMissed)):
                    await tier.ask(within_s=1e-9)

    play(scenario)


def test_two_heads_of_one_backbone_answer_as_whole_models_for_one_run_of_it(
    tmp_path: Path,
) -> None:
    bundles = (
        write_backbone(tmp_path / "backbone"),
        write_head(tmp_path / "head-0", name="tiny-head"),
        write_head(tmp_path / "head-1", name="tiny-other-head", shift=1),
    )

    async def scenario() -> None:
        async with running(*bundles) as pool:
            tier = Tier(pool, {"policy": "off"})
            for model, shift in (("tiny-head", 0), ("tiny-other-head", 1)):
                answer = await tier.ask(1, model)
                expected = tiny_logits(sure_image(1)[None], shift=shift)
                assert np.allclose(answer.outputs.logits, expected, atol=1e-6)
            looked = tier.features.look_ups
            assert (looked.missed, looked.fresh) == (1, 1)

    play(scenario)
