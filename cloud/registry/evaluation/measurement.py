"""Take the figures of one variant, and in the same minutes those of the current release beside it.

Everything that is timed goes in turns: a slow minute of this machine meets both.
"""

import asyncio
import contextlib
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cloud.registry.evaluation import quality
from cloud.registry.evaluation.figures import Gradient, Latency, Robustness, Shaken
from cloud.registry.evaluation.inputs import Kind
from cloud.registry.evaluation.material import Asked, Material
from cloud.registry.evaluation.settings import EvaluationSettings
from cloud.registry.evaluation.shaking import BOUNDARIES, KINDS
from cloud.registry.evaluation.subject import ModelBroke, Subject
from cloud.registry.evaluation.subject_messages import (
    Answered,
    AnswerInputs,
    Golden,
    Open,
    Opened,
    TakeStep,
    Time,
    Timed,
)
from cloud.registry.evaluation.subject_process import BATCH
from cloud.registry.evaluation.taking import Taking
from cloud.registry.evaluation.workspace import Workspace

_TAIL_RUNS_MIN = 100  # of a 99th percentile
_THROUGHPUT_RUNS_MAX = 20_000
_NO_LABELS = "a model that embeds has no labels"


class Measurement:
    """With one workspace, one set of material, one machine."""

    def __init__(
        self, material: Material, settings: EvaluationSettings, workspace: Workspace
    ) -> None:
        self._material = material
        self._settings = settings
        self._workspace = workspace

    async def side_by_side(self, takings: Sequence[Taking]) -> None:
        """All figures of these, each in a process of its own, open at the same time."""
        async with contextlib.AsyncExitStack() as stack:
            for taking in takings:
                await self._start(taking, stack)
            for step in (self._quality, self._robustness):
                for taking in takings:
                    await taking.attempt(step)
            await self._latency(takings)
        for taking in takings:
            taking.subject = None

    async def survey(self, taking: Taking) -> None:
        """Golden samples and boundary values alone: what the others are compared with."""
        async with contextlib.AsyncExitStack() as stack:
            await self._start(taking, stack)
        taking.subject = None

    async def _start(self, taking: Taking, stack: contextlib.AsyncExitStack) -> None:
        taking.subject = await stack.enter_async_context(
            Subject.started(self._settings.time_limit_s)
        )
        for step in (self._open, self._golden, self._boundary):
            await taking.attempt(step)

    async def _open(self, taking: Taking, subject: Subject) -> None:
        request = Open(
            folder=taking.bundle.where,
            variant=taking.variant.key,
            threads=self._settings.threads,
            batch_max=max(BATCH, *self._settings.batch_sizes),
            nice=self._settings.nice,
            memory_bytes_max=self._settings.memory_bytes_max,
        )
        await subject.ask(request, Opened)

    async def _golden(self, taking: Taking, subject: Subject) -> None:
        out = self._workspace.new_file()
        answered = await subject.ask(Golden(out=out), Answered)
        taking.golden = await self._answers(taking, out, len(taking.bundle.golden.inputs))
        if answered.memory_bytes is None:
            taking.missing["memory_mb"] = "this system does not say how much memory a process has"
        else:
            taking.metrics["memory_mb"] = answered.memory_bytes / 1e6

    async def _boundary(self, taking: Taking, subject: Subject) -> None:
        out = self._workspace.new_file()
        await subject.ask(AnswerInputs(inputs=self._material.boundary, out=out), Answered)
        taking.boundary = await self._answers(taking, out, len(BOUNDARIES))

    async def _answers(self, taking: Taking, out: str, rows: int) -> NDArray[np.float32]:
        shape = (rows, *taking.manifest.outputs[0].shape)
        answers = await self._workspace.take(out, shape)
        if answers is None:
            raise ModelBroke(f"its answers are not float32{list(shape)}, as the bundle says")
        return answers

    async def _quality(self, taking: Taking, subject: Subject) -> None:
        if not taking.manifest.labels:
            taking.missing |= dict.fromkeys(quality.NAMES, _NO_LABELS)
            return
        taking.clean = await self._asked(taking, subject, self._material.whole, None)
        found = await asyncio.to_thread(
            quality.measure_quality,
            taking.clean,
            self._material.data.labels,
            self._material.data.slices,
            names=taking.manifest.labels,
            temperature=taking.manifest.calibration.temperature,
            group_rows_min=self._settings.group_rows_min,
        )
        taking.quality = found.quality
        taking.metrics |= found.metrics
        taking.missing |= found.missing
        taking.notes += found.notes

    async def _asked(
        self, taking: Taking, subject: Subject, asked: Asked, kind: Kind | None
    ) -> NDArray[np.float32]:
        out = self._workspace.new_file()
        request = AnswerInputs(
            inputs=asked.path,
            out=out,
            kind=kind,
            low=self._material.domain.low,
            high=self._material.domain.high,
            noise=self._settings.noise,
            blur=self._settings.blur,
            brightness=self._settings.brightness,
            seed=self._settings.seed,
        )
        await subject.ask(request, Answered)
        return await self._answers(taking, out, len(asked.rows))

    async def _robustness(self, taking: Taking, subject: Subject) -> None:
        if taking.clean is None:
            names = ("noise", "blur", "brightness", "fgsm")
            taking.missing |= dict.fromkeys(names, _NO_LABELS)
            return
        found: dict[Kind, Shaken] = {}
        for kind in KINDS:
            metric = "brightness" if kind in {"brighter", "darker"} else kind
            if why := self._material.domain.why_not(kind):
                taking.missing[metric] = why
                continue
            drawn = self._material.drawn
            answers = await self._asked(taking, subject, drawn, kind)
            found[kind] = Shaken(
                name=kind,
                rows=len(drawn.rows),
                clean=self._share_right(taking.clean[drawn.rows], drawn.rows),
                accuracy=self._share_right(answers, drawn.rows),
            )
            taking.metrics[metric] = min(taking.metrics.get(metric, math.inf), found[kind].accuracy)
        taking.robustness = Robustness(shaken=tuple(found.values()))
        if why := self._material.domain.why_not("fgsm"):
            taking.missing["fgsm"] = why
        else:
            gradient = await self._gradient(taking, subject, taking.clean)
            taking.metrics["fgsm"] = gradient.stepped
            taking.robustness = Robustness(shaken=tuple(found.values()), gradient=gradient)

    async def _gradient(
        self, taking: Taking, subject: Subject, clean: NDArray[np.float32]
    ) -> Gradient:
        few, domain, settings = self._material.few, self._material.domain, self._settings
        out = self._workspace.new_file()
        request = TakeStep(
            inputs=few.path,
            labels=tuple(int(label) for label in self._material.data.labels[few.rows]),
            out=out,
            low=domain.low,
            high=domain.high,
            size=settings.fgsm_step,
            directions=settings.fgsm_directions,
            seed=settings.seed,
        )
        await subject.ask(request, Answered)
        shape = (2, len(few.rows), *taking.manifest.outputs[0].shape)
        answers = await self._workspace.take(out, shape)
        if answers is None:
            raise ModelBroke(f"its answers are not float32{list(shape)}, as the bundle says")
        return Gradient(
            rows=len(few.rows),
            queries=2 * settings.fgsm_directions * len(few.rows),
            clean=self._share_right(clean[few.rows], few.rows),
            stepped=self._share_right(answers[0], few.rows),
            random=self._share_right(answers[1], few.rows),
        )

    def _share_right(self, answers: NDArray[np.float32], rows: NDArray[np.intp]) -> float:
        """An answer that is not finite is wrong."""
        right = answers.argmax(axis=1) == self._material.data.labels[rows]
        return float((right & np.isfinite(answers).all(axis=1)).mean())

    async def _latency(self, takings: Sequence[Taking]) -> None:
        settings = self._settings
        rounds = settings.latency_rounds
        taken: dict[int, list[float]] = {id(taking): [] for taking in takings}
        rates: dict[int, dict[int, float]] = {id(taking): {} for taking in takings}

        async def a_round(taking: Taking, subject: Subject) -> None:
            runs, s_max = -(-settings.latency_runs // rounds), settings.latency_s_max / rounds
            timed = await self._timed(subject, 1, runs, s_max)
            taken[id(taking)] += timed

        for turn in range(rounds):
            for taking in takings[:: 1 if turn % 2 == 0 else -1]:
                await taking.attempt(a_round)
        for batch in settings.batch_sizes:

            async def a_batch(taking: Taking, subject: Subject, batch: int = batch) -> None:
                timed = await self._timed(
                    subject, batch, _THROUGHPUT_RUNS_MAX, settings.throughput_s
                )
                rates[id(taking)][batch] = batch * len(timed) / max(math.fsum(timed) / 1e3, 1e-9)

            for taking in takings:
                await taking.attempt(a_batch)
        for taking in takings:
            if taking.runs:
                _sum_up(taking, taken[id(taking)], rates[id(taking)])

    async def _timed(
        self, subject: Subject, batch: int, runs: int, s_max: float
    ) -> tuple[float, ...]:
        request = Time(inputs=self._material.whole.path, batch=batch, runs=runs, s_max=s_max)
        timed = await subject.ask(request, Timed)
        if not timed.ms:
            raise ModelBroke("its process timed nothing")
        return timed.ms


def _sum_up(taking: Taking, ms: list[float], rates: dict[int, float]) -> None:
    quantiles = np.quantile(np.array(ms), np.linspace(0, 1, 101))
    taking.latency = Latency(
        runs=len(ms),
        quantiles_ms=tuple(float(value) for value in quantiles),
        throughput_per_s=rates,
    )
    for percent in (50, 95, 99):
        taking.metrics[f"p{percent}_ms"] = float(quantiles[percent])
    taking.metrics["throughput_per_s"] = max(rates.values())
    if len(ms) < _TAIL_RUNS_MIN:
        taking.notes.append(f"latency is of {len(ms)} runs: its 99th percentile is one run's")
