"""The threshold's refit: when it is due, and what it is fitted on."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Annotated, Final, Protocol

from pydantic import Field

from cloud.feedback.answers import AnswerRows
from cloud.feedback.documents import SampleQuery
from cloud.fleet.documents import EVERYBODY, Profile
from cloud.learning.documents import LoopSettings, Refit
from cloud.learning.known import FleetGroups
from cloud.learning.models import Models
from cloud.learning.neighbours import fleet_at
from cloud.learning.profile_rollouts import (
    RolloutRuns,
    check_is_free,
    profile_of,
    pushed,
    rolled,
)
from cloud.learning.settings import LearningFleet
from cloud.learning.store.loops import LoopStore
from shared.bundle.manifest import Share
from shared.config import Count, Positive, Section
from shared.errors import Conflict, Forbidden, HybridgeError, Unavailable, Unknown
from shared.fleet.profile import ProfileSettings, digest

log = logging.getLogger(__name__)
_DEVICES_MAX: Final = 10_000


class Refits(Section):
    """How thresholds are fitted anew."""

    epsilon: Annotated[Share, Field(gt=0, lt=1)] = 0.01
    """Share of samples that may be lost on the edge. Default: without people's labels every
    disagreement counts, and 1% of those escalates what 0.5% of true losses does."""
    delta: Annotated[Share, Field(gt=0, lt=1)] = 0.05
    """Probability that it is more. Default: as the bundles' own thresholds."""
    window_s: Positive = 7 * 86_400.0
    """Samples that came within it. Default: a week has every kind of day."""
    samples_max: Annotated[Count, Field(le=1_000_000)] = 50_000
    """That are read, the newest first."""


class Answers(Protocol):
    """The feedback store."""

    def answers(
        self, query: SampleQuery, rows_max: int, devices: Sequence[str] = ()
    ) -> AnswerRows: ...


class Versions(Protocol):
    """The registry."""

    async def current(self, model: str) -> str | None: ...


class Refitting:
    def __init__(
        self,
        store: LoopStore,
        answers: Answers,
        versions: Versions,
        models: Models,
        fleet: LearningFleet | None,
        settings: Refits,
        look_s: float,
        now: Callable[[], float],
    ) -> None:  # fmt: skip
        """`look_s`: between two looks at whether a loop's `refit_every_s` is over."""
        self._store, self._answers, self._versions, self._models = store, answers, versions, models
        self._fleet, self._settings, self._look_s, self._now = fleet, settings, look_s, now
        self._away = set[str]()
        """Loops whose refit waits for somebody who is away, or for a rollout's end; said once."""

    async def fitted(self, model: str) -> Refit:
        """What the threshold would be. Raises `Unknown`; `Conflict` where too little is known."""
        loop = (await asyncio.to_thread(self._store.loop, model)).settings
        profile = await self._profile(loop)
        return await self._fit(loop, None if profile is None else profile.settings)

    async def apply(self, model: str, by: str, comment: str) -> Refit:
        """Fit it, and roll it out as the next version of the group's profile. Raises as `fitted`, and
        `RolloutRuns`.
        """
        loop = (await asyncio.to_thread(self._store.loop, model)).settings
        if self._fleet is None:
            raise Conflict("this process has no [fleet] to roll a profile out to; set fleet.urls")
        profile = await self._profile(loop)
        found = await self._fit(loop, None if profile is None else profile.settings)
        settings = (ProfileSettings() if profile is None else profile.settings).model_copy(
            update={"threshold": None, "confidence_min": found.confidence_min}
        )
        name = f"loop-{loop.group}"[:64] if profile is None else profile.name
        why = f"refit of {model} by {by}" + (f": {comment}" if comment else "")
        async with fleet_at(self._fleet) as fleet:
            await check_is_free(fleet, loop.group, digest(settings))
            made = await pushed(fleet, name, settings)
            await rolled(fleet, loop, made, why)
        await asyncio.to_thread(self._store.put_refit, model, self._now())
        log.info("threshold_refitted", extra={
            "model": model, "version": found.version, "confidence_min": found.confidence_min,
            "before": found.before, "profile": f"{made.name} {made.version}",
        })  # fmt: skip
        return found

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._look_s)

    async def look(self) -> None:
        """Each loop whose `refit_every_s` is over."""
        try:
            for kept in await asyncio.to_thread(self._store.loops):
                await self._if_due(kept.settings, kept.made_at)
        except HybridgeError as error:
            log.warning("refit_blind", extra={"why": str(error)[:300]})

    async def _if_due(self, loop: LoopSettings, made_at: float) -> None:
        if loop.refit_every_s is None or not loop.enabled:
            return
        at = await asyncio.to_thread(self._store.refitted_at, loop.model)
        if self._now() - (made_at if at is None else at) < loop.refit_every_s:
            return
        try:
            if self._fleet is not None:  # before the fit: a rollout may be there for days
                async with fleet_at(self._fleet) as fleet:
                    await check_is_free(fleet, loop.group)
            await self.apply(loop.model, "loop", "its time had come")
        except (Unavailable, Forbidden, RolloutRuns) as error:  # at the next look
            if loop.model not in self._away:
                log.warning("refit_waits", extra={"model": loop.model, "why": str(error)[:500]})
            self._away.add(loop.model)
            return
        except HybridgeError as error:
            log.warning("refit_refused", extra={"model": loop.model, "why": str(error)[:500]})
            await asyncio.to_thread(self._store.put_refit, loop.model, self._now())
        self._away.discard(loop.model)

    async def _fit(self, loop: LoopSettings, profile: ProfileSettings | None) -> Refit:
        model = loop.model
        version = await self._versions.current(model)
        if version is None:
            raise Unknown(f"{model} has no released version")
        before = await self._before(model, version, profile)
        devices = await self._devices(loop.group)
        return await asyncio.to_thread(self._fit_now, model, version, before, devices)

    async def _devices(self, group: str) -> tuple[str, ...]:
        """Those that get the profile: what it promises is about them. None named: all."""
        if group == EVERYBODY:
            return ()
        devices = await FleetGroups(self._fleet).devices(group)
        if not devices:
            raise Conflict(f"group {group} has no devices, so there is nothing to fit on")
        if len(devices) > _DEVICES_MAX:
            raise Conflict(
                f"group {group} has {len(devices)} devices, and a threshold is fitted on at most "
                f"{_DEVICES_MAX}; make it several groups"
            )
        return devices

    def _fit_now(self, model: str, version: str, before: float, devices: tuple[str, ...]) -> Refit:
        from cloud.learning.refit import fit  # noqa: PLC0415  scipy takes seconds at every start

        settings = self._settings
        query = SampleQuery(
            model=model, version=version, since=max(0.0, self._now() - settings.window_s)
        )
        rows = self._answers.answers(query, settings.samples_max, devices)
        found = fit(rows, settings.epsilon, settings.delta)
        return Refit(
            model=model, version=version, confidence_min=found.confidence_min, before=before,
            epsilon=settings.epsilon, delta=settings.delta, samples=found.samples,
            escalated_share=found.escalated_share, words=found.words,
        )  # fmt: skip

    async def _before(self, model: str, version: str, profile: ProfileSettings | None) -> float:
        if profile is not None and profile.confidence_min is not None:
            return profile.confidence_min
        calibration = (await self._models.bundle(model, version)).manifest.calibration
        name = (profile.threshold if profile is not None else None) or calibration.default_threshold
        for one in calibration.thresholds:
            if one.name == name:
                return one.confidence_min
        raise Conflict(f"{model} {version}: its bundle has no threshold {name}; it never escalates")

    async def _profile(self, loop: LoopSettings) -> Profile | None:
        """The group's, as the fleet has it now; None where there is none."""
        if self._fleet is None:
            return None
        async with fleet_at(self._fleet) as fleet:
            return await profile_of(fleet, loop.group)
