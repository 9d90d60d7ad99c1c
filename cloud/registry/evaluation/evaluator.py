"""Claim what is queued, evaluate it, end it: one evaluation at a time, under a lease."""

import asyncio
import contextlib
import logging
import os
import platform
import time
from collections.abc import Callable

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.catalog.catalog import Catalog
from cloud.registry.catalog.commands import ClaimEvaluation, EndEvaluation, RenewEvaluation
from cloud.registry.documents import Evaluation
from cloud.registry.evaluation.evaluation import broken, evaluate
from cloud.registry.evaluation.findings import Subjects
from cloud.registry.evaluation.rules import NoCurrent
from cloud.registry.evaluation.settings import EvaluationSettings
from shared.errors import Conflict, HybridgeError, Unavailable

log = logging.getLogger(__name__)

_RENEWALS_PER_LEASE = 3
_ITSELF = NoCurrent("this is the current release")


class Evaluator:
    """The clock is `now`, in Unix seconds: the catalog's leases are by it."""

    def __init__(
        self,
        catalog: Catalog,
        artifacts: Artifacts,
        settings: EvaluationSettings,
        name: str,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._catalog = catalog
        self._artifacts = artifacts
        self._settings = settings
        self._name = name
        self._now = now
        self._catalog_is_away = False

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`. What it was measuring then is left: its lease lapses, another claims it."""
        working = asyncio.create_task(self._work())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, stopping):
                task.cancel()
            await asyncio.wait({working, stopping})
        if not working.cancelled():
            working.result()

    async def _work(self) -> None:
        while True:
            if not await self.work_once():
                await asyncio.sleep(self._settings.poll_s)

    async def work_once(self) -> bool:
        """Whether there was an evaluation to do."""
        try:
            claimed = await self._claim()
            self._note_catalog(is_away=False)
        except Unavailable:
            self._note_catalog(is_away=True)
            return False
        if claimed is None:
            return False
        fields = {"id": claimed.id, "model": claimed.model, "version": claimed.version}
        log.info("evaluation_started", extra=fields)
        try:
            ended = await self._under_lease(claimed)
            await self._end(ended)
        except Conflict as error:  # rejected meanwhile, or another's after a lease that ran out
            log.warning("evaluation_dropped", extra={**fields, "why": str(error)})
        except HybridgeError as error:
            log.error("evaluation_not_ended", extra={**fields, "why": str(error)})  # noqa: TRY400
        else:
            log.info("evaluation_ended", extra={**fields, "state": ended.state, "why": ended.why})
        return True

    async def _claim(self) -> Evaluation | None:
        command = ClaimEvaluation(self._name, self._settings.lease_s)
        applied = await asyncio.to_thread(self._catalog.apply, command, self._name, self._now())
        return applied.evaluation

    async def _end(self, ended: Evaluation) -> None:
        command = EndEvaluation(ended, ended.hardware)
        await asyncio.to_thread(self._catalog.apply, command, self._name, self._now())

    async def _under_lease(self, claimed: Evaluation) -> Evaluation:
        """Raises `Conflict` as soon as the claim is lost: what follows would be dropped anyway."""
        evaluating = asyncio.create_task(self._evaluate(claimed))
        renewing = asyncio.create_task(self._renew(claimed))
        try:
            await asyncio.wait({evaluating, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if not evaluating.done():
                renewing.result()  # it only ends by raising
            return evaluating.result()
        finally:
            for task in (evaluating, renewing):
                task.cancel()
            await asyncio.wait({evaluating, renewing})
            if not renewing.cancelled():
                renewing.exception()  # seen: it came too late to matter, or was raised above

    async def _renew(self, claimed: Evaluation) -> None:
        lease_s = self._settings.lease_s
        command = RenewEvaluation(claimed.id, self._name, claimed.attempts, lease_s)
        while True:
            await asyncio.sleep(lease_s / _RENEWALS_PER_LEASE)
            with contextlib.suppress(Unavailable):  # the next one may come through in time
                await asyncio.to_thread(self._catalog.apply, command, self._name, self._now())

    async def _evaluate(self, claimed: Evaluation) -> Evaluation:
        try:
            subjects = await asyncio.to_thread(self._subjects, claimed)
            return await evaluate(claimed, subjects, self._artifacts, self._settings)
        except HybridgeError as error:
            return broken(claimed, str(error), None)
        except Exception as error:  # a bug of ours over one odd model must not stop all others
            log.exception("evaluation_bug", extra={"id": claimed.id})
            return broken(
                claimed, f"a bug in the evaluator ({type(error).__name__}); its log", None
            )

    def _subjects(self, claimed: Evaluation) -> Subjects:
        model = self._catalog.model(claimed.model)
        gate = model.gate
        is_itself = model.current == claimed.version
        return Subjects(
            gate=gate,
            version=self._catalog.version(claimed.model, claimed.version),
            data_set=None if gate.data_set is None else self._catalog.data_set(gate.data_set, None),
            current=None
            if model.current is None or is_itself
            else self._catalog.version(claimed.model, model.current),
            nothing=_ITSELF if is_itself else NoCurrent(),
        )

    def _note_catalog(self, *, is_away: bool) -> None:
        """Once when it goes, once when it is back."""
        if is_away != self._catalog_is_away:
            self._catalog_is_away = is_away
            log.warning("evaluator_catalog_away" if is_away else "evaluator_catalog_back")


async def run_evaluator(
    catalog: Catalog, artifacts: Artifacts, settings: EvaluationSettings, stop: asyncio.Event
) -> None:
    """One evaluator of this machine, until `stop`."""
    name = f"evaluator-{platform.node()[:100]}-{os.getpid()}"
    await Evaluator(catalog, artifacts, settings, name).run(stop)
