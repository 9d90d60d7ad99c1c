"""Real graphs behind real batchers on virtual time; a queue by hand where order is the point."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloud.serving.awaited import Awaited
from cloud.serving.backbone import Backbone
from cloud.serving.batch_rules import BatchRules
from cloud.serving.batcher import Batcher
from cloud.serving.caches.feature_cache import FeatureCache, Owner
from cloud.serving.caches.settings import FeatureCacheSettings
from cloud.serving.job import Job, Outputs, Priority, Ran, Rows
from cloud.serving.latency_curve import LatencyCurve
from cloud.serving.refusal import QueueFull
from cloud.serving.split import Split, check_fits
from shared.bundle.manifest import Backbone as Named
from shared.bundle.reader import open_bundle
from shared.engines.engine import Session
from shared.engines.known import known_engines
from shared.engines.ranking import choose
from shared.errors import DeadlineMissed, Malformed, Unavailable
from simulations.virtual_time import run
from tests.split_bundle import FEATURES, write_backbone, write_head
from tests.tiny_bundle import sure_image, tiny_logits

OWNER = Owner("tiny-backbone", "1.0.0")
ROWS = sure_image(1)[None]
FAR = 1e9


class Runs:
    """Runs a session and counts how often."""

    def __init__(self, session: Session) -> None:
        self.session, self.count = session, 0

    def __call__(self, rows: Sequence[Rows]) -> Outputs:
        self.count += 1
        logits = self.session.run(np.concatenate(rows))
        return Outputs(logits, logits)


class Cut:
    """One backbone and two heads, opened."""

    def __init__(self, folder: Path) -> None:
        engines = known_engines()
        self.sessions = [
            choose(open_bundle(path), engines).session
            for path in (
                write_backbone(folder / "backbone"),
                write_head(folder / "head-0", shift=0),
                write_head(folder / "head-1", name="tiny-other-head", shift=1),
            )
        ]
        self.backbone = Runs(self.sessions[0])

    def heads(
        self,
        *,
        policy: str = "lru",
        rows_max: int = 8,
        costs_s: tuple[float, float] = (0.0001, 0.0001),
    ) -> tuple[Split, Split]:
        now = asyncio.get_running_loop().time
        cache = FeatureCache(
            FeatureCacheSettings.model_validate({"policy": policy, "rows_max": rows_max})
        )
        curves = [LatencyCurve({1: cost_s}) for cost_s in costs_s]
        rules = BatchRules(size_max=8)
        backbone = Backbone(
            OWNER, Batcher(self.backbone, curves[0], rules=rules, now=now), cache, now=now
        )
        first, second = (
            Split(
                backbone, Batcher(Runs(session), curves[1], rules=rules, now=now), curves[1].cost_s
            )
            for session in self.sessions[1:]
        )
        return first, second


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cut]:
    made = Cut(tmp_path_factory.mktemp("cut"))
    yield made
    for session in made.sessions:
        session.close()


@pytest.fixture
def cut(opened: Cut) -> Cut:
    opened.backbone.count = 0
    return opened


def test_the_second_head_costs_no_run_of_the_backbone_and_both_answer_as_the_whole_model(
    cut: Cut,
) -> None:
    async def scenario() -> None:
        first, second = cut.heads()
        rows = np.stack([sure_image(2), sure_image(0)])
        one = await first.infer(rows, FAR)
        assert cut.backbone.count == 1
        other = await second.infer(rows.copy(), FAR)
        assert cut.backbone.count == 1
        assert np.allclose(one.outputs.logits, tiny_logits(rows, shift=0), atol=1e-6)
        assert np.allclose(other.outputs.logits, tiny_logits(rows, shift=1), atol=1e-6)

    run(scenario())


@pytest.mark.parametrize("policy", ["lru", "off"])
def test_the_same_rows_at_the_same_time_share_one_run(cut: Cut, policy: str) -> None:
    async def scenario() -> None:
        first, second = cut.heads(policy=policy)
        asked = [split.infer(ROWS, FAR) for split in (first, second, first)]
        answers = [ran.outputs.logits for ran in await asyncio.gather(*asked)]
        assert cut.backbone.count == 1
        for logits, shift in zip(answers, (0, 1, 0), strict=True):
            assert np.allclose(logits, tiny_logits(ROWS, shift=shift), atol=1e-6)
        await first.infer(ROWS, FAR)
        assert cut.backbone.count == (1 if policy == "lru" else 2)

    run(scenario())


def test_row_sets_too_large_for_the_cache_are_answered_all_the_same(cut: Cut) -> None:
    async def scenario() -> None:
        first, _ = cut.heads(rows_max=1)
        rows = np.repeat(ROWS, 2, axis=0)
        answers = [await first.infer(rows, FAR) for _ in range(2)]
        assert cut.backbone.count == 2
        for one in answers:
            assert np.allclose(one.outputs.logits, tiny_logits(rows), atol=1e-6)

    run(scenario())


def test_inputs_that_take_long_to_hash_are_neither_kept_nor_shared() -> None:
    cache = FeatureCache(FeatureCacheSettings(input_bytes_max=ROWS.nbytes))
    assert cache.key(OWNER, ROWS) is not None
    assert cache.key(OWNER, ROWS.astype(np.float32)) is None


def test_what_cannot_pass_both_models_in_time_is_refused_at_once(cut: Cut) -> None:
    async def scenario() -> None:
        first, _ = cut.heads(costs_s=(0.01, 0.05))
        now = asyncio.get_running_loop().time()
        with pytest.raises(DeadlineMissed):
            first.submit(Awaited(ROWS, now + 0.055))
        first.submit(Awaited(ROWS, now + 0.065))
        assert cut.backbone.count == 0

    run(scenario())


class ByHand:
    """A queue that does what the test says."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.refuses: Exception | None = None

    def submit(self, job: Job) -> None:
        if self.refuses is not None:
            raise self.refuses
        job.added = 0.0
        self.jobs.append(job)


def ran(values: float = 1.0, queue_s: float = 2.0, run_s: float = 4.0) -> Ran:
    array = np.full((1, FEATURES), values, np.float32)
    return Ran(Outputs(array, array), queue_s, run_s)


class Told(Job):
    def __init__(
        self, deadline: float = FAR, priority: Priority = Priority.INTERACTIVE, rows: Rows = ROWS
    ) -> None:
        super().__init__(rows, deadline, priority)
        self.answers: list[Ran] = []
        self.errors: list[Exception] = []
        self.left, self.raises = False, False

    @property
    def gone(self) -> bool:
        return self.left

    def answered(self, ran: Ran) -> None:
        if self.raises:
            raise RuntimeError("a closed transport")
        self.answers.append(ran)

    def failed(self, error: Exception) -> None:
        if self.raises:
            raise RuntimeError("a closed transport")
        self.errors.append(error)


class Bench:
    """A split between two queues by hand, and a clock."""

    def __init__(self, waiting_max: int = 1024, head_s: float = 1.0) -> None:
        self.time = 0.0
        self.below, self.above = ByHand(), ByHand()
        self.cache = FeatureCache(FeatureCacheSettings())
        self.backbone = self.of(OWNER, waiting_max)
        self.split = Split(self.backbone, self.above, lambda _rows: head_s)

    def of(self, owner: Owner, waiting_max: int = 1024) -> Backbone:
        return Backbone(
            owner, self.below, self.cache, waiting_max=waiting_max, now=lambda: self.time
        )

    def told(self, *deadlines: float, **kwargs: Any) -> list[Told]:
        jobs = [Told(deadline, **kwargs) for deadline in deadlines]
        for job in jobs:
            self.split.submit(job)
        return jobs


def test_features_of_another_version_or_another_load_are_not_taken() -> None:
    bench = Bench()
    bench.told(FAR)
    bench.below.jobs.pop().answered(ran())
    for owner in (Owner("tiny-backbone", "1.0.1"), Owner("tiny-backbone", "1.0.0", load=1)):
        Split(bench.of(owner), bench.above, lambda _: 0.0).submit(Told())
        assert len(bench.below.jobs) == 1
        bench.below.jobs.clear()
    bench.told(FAR)
    assert not bench.below.jobs


def test_features_are_due_before_the_deadline_by_what_the_head_takes() -> None:
    bench = Bench(head_s=1.5)
    bench.told(10.0)
    assert bench.below.jobs[0].deadline == 8.5
    bench.below.jobs[0].answered(ran())
    assert bench.above.jobs[0].deadline == 10.0


def test_whoever_is_in_more_of_a_hurry_does_not_join() -> None:
    bench = Bench()
    bench.told(10.0, 12.0, priority=Priority.NEAR_LINE)
    assert len(bench.below.jobs) == 1
    bench.told(9.0, priority=Priority.NEAR_LINE)
    assert len(bench.below.jobs) == 2
    bench.told(20.0, priority=Priority.INTERACTIVE)
    assert len(bench.below.jobs) == 3
    bench.told(20.0, 30.0, priority=Priority.BULK)
    assert len(bench.below.jobs) == 3


def test_one_who_has_time_left_asks_again_when_the_first_ones_is_up() -> None:
    bench = Bench()
    first, same, later, latest = bench.told(10.0, 10.0, 20.0, 30.0)
    bench.below.jobs.pop().failed(DeadlineMissed("slow"))
    assert [len(job.errors) for job in (first, same, later, latest)] == [1, 1, 0, 0]
    assert len(bench.below.jobs) == 1
    bench.below.refuses = QueueFull("full", 1.0)
    bench.below.jobs.pop().failed(DeadlineMissed("slow"))
    assert isinstance(later.errors[0], DeadlineMissed)
    assert isinstance(latest.errors[0], QueueFull)
    assert bench.backbone.joined == 0


def test_a_fault_of_the_backbone_is_everybodys_and_is_not_kept() -> None:
    bench = Bench()
    jobs = bench.told(10.0, 20.0)
    bench.below.jobs.pop().failed(Unavailable("the engine is gone"))
    assert [str(job.errors[0]) for job in jobs] == ["the engine is gone"] * 2
    bench.told(10.0)
    assert len(bench.below.jobs) == 1


def test_who_hung_up_costs_the_others_nothing() -> None:
    bench = Bench()
    first, second = bench.told(10.0, 20.0)
    first.left = True
    assert not bench.below.jobs[0].gone
    bench.below.jobs[0].answered(ran())
    bench.above.jobs[0].answered(ran())
    assert len(bench.above.jobs) == len(second.answers) == 1
    assert not first.answers


def test_who_hangs_up_between_the_two_models_costs_the_head_nothing() -> None:
    bench = Bench()
    (job,) = bench.told(10.0)
    bench.below.jobs[0].answered(ran())
    assert not bench.above.jobs[0].gone
    job.left = True
    assert bench.above.jobs[0].gone


def test_a_run_that_everybody_left_is_not_joined() -> None:
    bench = Bench()
    (first,) = bench.told(10.0)
    first.left = True
    assert bench.below.jobs[0].gone
    bench.told(20.0)
    assert len(bench.below.jobs) == 2


@pytest.mark.parametrize("deadlines", [(10.0,), (10.0, 20.0)])
def test_runs_that_a_batcher_dropped_take_up_no_room(deadlines: tuple[float, ...]) -> None:
    bench = Bench(waiting_max=4)
    for number in range(1_000):
        rows = np.full((1, 4, 4), number % 256, np.uint8)
        rows[0, 0, 0] = number // 256
        for job in bench.told(*deadlines, rows=rows):
            job.left = True
    assert len(bench.backbone._open) <= 64
    assert len(bench.backbone._latest) <= 64
    assert bench.backbone.joined <= 4


def test_who_waits_for_others_runs_is_bounded() -> None:
    bench = Bench(waiting_max=2)
    jobs = bench.told(10.0, 11.0, 12.0)
    with pytest.raises(QueueFull):
        bench.told(13.0)
    bench.below.jobs.pop().answered(ran())
    for job in bench.above.jobs:
        job.answered(ran())
    assert [len(job.answers) for job in jobs] == [1, 1, 1]
    assert bench.backbone.joined == 0


def test_what_the_head_refuses_later_is_told() -> None:
    bench = Bench()
    (job,) = bench.told(10.0)
    bench.above.refuses = QueueFull("full", 1.0)
    bench.below.jobs.pop().answered(ran())
    assert isinstance(job.errors[0], QueueFull)
    with pytest.raises(QueueFull):
        bench.told(10.0)  # its features are at hand, so the head's refusal comes at once


@pytest.mark.parametrize("end", [lambda j: j.answered(ran()), lambda j: j.failed(OSError("x"))])
def test_one_whose_callback_raises_does_not_hurt_the_others(end: Callable[[Job], None]) -> None:
    bench = Bench()
    first, second = bench.told(10.0, 20.0)
    first.raises = True
    bench.above.refuses = QueueFull("full", 1.0)
    with pytest.raises(RuntimeError, match="closed transport"):
        end(bench.below.jobs.pop())
    assert len(second.errors) == 1


def test_stage_times_are_those_of_the_request_not_of_the_run_that_it_joined() -> None:
    bench = Bench()
    first, early, late = bench.told(50.0)[0], Told(60.0), Told(70.0)
    bench.time = 1.0
    bench.split.submit(early)
    bench.time = 5.0
    bench.split.submit(late)
    bench.below.jobs.pop().answered(ran(queue_s=2.0, run_s=4.0))
    for job in bench.above.jobs:
        job.answered(ran(queue_s=0.5, run_s=0.25))
    times = [(job.answers[0].queue_s, job.answers[0].run_s) for job in (first, early, late)]
    assert times == [(2.5, 4.25), (1.5, 4.25), (0.5, 1.25)]


def test_look_ups_are_counted_once_each() -> None:
    bench = Bench()
    bench.told(10.0, 20.0)
    bench.below.jobs.pop().answered(ran())
    bench.told(10.0)
    counts = bench.cache.look_ups
    assert (counts.missed, counts.shared, counts.fresh) == (1, 1, 1)


def test_a_head_says_what_does_not_fit_its_backbone(tmp_path: Path) -> None:
    backbone = open_bundle(write_backbone(tmp_path / "backbone")).manifest
    head = open_bundle(write_head(tmp_path / "head")).manifest
    check_fits(head, backbone)
    other = head.model_copy(update={"backbone": Named(name="tiny-backbone", version="2.0.0")})
    with pytest.raises(Malformed, match=r"names tiny-backbone 2\.0\.0, not tiny-backbone 1\.0\.0"):
        check_fits(other, backbone)
    with pytest.raises(Malformed, match="names no backbone"):
        check_fits(head.model_copy(update={"backbone": None}), backbone)
    narrow = backbone.outputs[0].model_copy(update={"shape": (8,)})
    with pytest.raises(Malformed, match=r"takes float32\[16\]; its backbone .* float32\[8\]"):
        check_fits(head, backbone.model_copy(update={"outputs": (narrow,)}))
    with pytest.raises(Malformed, match="gives classify"):
        check_fits(head, backbone.model_copy(update={"task": "classify"}))
