"""Commands for the feedback store, which is in this process."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final
from uuid import UUID

from cloud.feedback.documents import (
    DataSetSpec,
    DataSetVersion,
    FeedbackSample,
    SampleQuery,
    Source,
)
from cloud.feedback.store import FeedbackStore
from cloud.fleet.documents import EVERYBODY
from cloud.learning.documents import LoopSettings
from cloud.learning.loop import commands as c
from cloud.learning.loop import events as e
from cloud.learning.loop.actor import ACTOR
from cloud.learning.loop.record import data_spec
from cloud.learning.pages import all_samples
from shared.errors import Refused
from shared.ids import SampleId

_STEP: Final = 500
_DEVICES_MAX: Final = 10_000


class SampleHand:
    def __init__(
        self,
        feedback: FeedbackStore,
        devices_of: Callable[[str], Awaitable[tuple[str, ...]]],
        settings_of: Callable[[str], LoopSettings],
        labels_read_max: int,
        now: Callable[[], float],
    ) -> None:
        """`devices_of` gives a group's devices, `settings_of` a model's loop (called on a thread).
        `labels_read_max`: samples with a person's label that are read, the newest first.
        """
        self._feedback, self._devices_of, self._settings_of = feedback, devices_of, settings_of
        self._labels_read_max, self._now = labels_read_max, now
        self._pictures: dict[tuple[str, str], bytes] = {}
        """Of those that people labelled: counted again each `count_s`."""

    async def counted(self, command: c.Count) -> e.Counted:
        spec = await self._of_group(command.spec, command.group)
        return await asyncio.to_thread(self._counted, spec, command.teacher)

    async def built(self, command: c.Build) -> e.Built:
        """The one that this cycle made before, whatever devices its group had then; or the name's next
        version: cycles' names can be guessed, and a trainer may make data sets by any.
        """
        made = await asyncio.to_thread(self._made, command)
        if made is None:
            spec = await self._of_group(command.spec, command.group)
            # another's is given only where spec and bytes are what would be made now
            made = await asyncio.to_thread(
                self._feedback.build, command.name, spec, ACTOR, self._now()
            )
        return e.Built(made)

    async def _of_group(self, spec: DataSetSpec, group: str) -> DataSetSpec:
        """A version is for the devices that get it: its reference, its thresholds and its int8
        ranges are of what it learned from. Raises `Refused` for a group without a device.
        """
        if not _is_groups(spec, group):
            return spec
        devices = await self._devices_of(group)
        if not devices:
            raise Refused(f"group {group} has no devices; label some, or name devices in data")
        if len(devices) > _DEVICES_MAX:
            raise Refused(
                f"group {group} has {len(devices)} devices, and a data set names at most "
                f"{_DEVICES_MAX}; name sites in data"
            )
        return spec.model_copy(update={"devices": devices})

    async def new_since(self, model: str, since: float | None) -> int:
        """Of those that a cycle of the loop would take. Raises `Unknown`, and as `counted`."""
        settings = await asyncio.to_thread(self._settings_of, model)
        spec = data_spec(settings, None, None)
        if since is not None:
            spec = spec.model_copy(update={"since": max(spec.since or 0.0, since)})
        spec = await self._of_group(spec, settings.group)
        return await asyncio.to_thread(self._feedback.matching, spec)

    def _counted(self, spec: DataSetSpec, teacher: str) -> e.Counted:
        samples = self._feedback.matching(spec)
        labelled = _query(spec).model_copy(
            update={"source": Source.PERSON, "holdout": spec.holdout_share}
        )
        people, seen = e.Paired(), set[bytes]()
        for one in all_samples(self._feedback, labelled, _STEP, self._labels_read_max):
            if not _is_of(spec, one) or one.cloud_model != teacher or one.contradicted:
                continue
            picture = self._picture(one)
            if (
                picture is not None and picture not in seen
            ):  # a still camera sends one by the hundred
                seen.add(picture)
                people = _with(people, one)
        return e.Counted(samples, people)

    def _picture(self, sample: FeedbackSample) -> bytes | None:
        """Equal for equal ones; None: nobody can read it, so it is in no data set."""
        key = sample.device, sample.id
        if key not in self._pictures:
            try:
                tensor = self._feedback.tensor(sample.device, SampleId(UUID(sample.id)))
            except Refused:
                return None
            if len(self._pictures) >= self._labels_read_max:
                self._pictures.clear()
            self._pictures[key] = hashlib.sha256(tensor.tobytes()).digest()
        return self._pictures[key]

    def _made(self, command: c.Build) -> DataSetVersion | None:
        unsaid = {"devices": ()} if _is_groups(command.spec, command.group) else {}
        for made in reversed(self._feedback.data_sets(command.name)):
            if made.made_by == ACTOR and made.spec.model_copy(update=unsaid) == command.spec:
                return made
        return None


def _is_groups(spec: DataSetSpec, group: str) -> bool:
    """Whether it is of the group's devices, and names none itself."""
    return group != EVERYBODY and not spec.devices and not spec.sites


def _query(spec: DataSetSpec) -> SampleQuery:
    """Samples of the spec, as far as a query can say it."""
    return SampleQuery(
        model=spec.model, cloud_model=spec.cloud_model, since=spec.since, until=spec.until,
        version=spec.versions[0] if len(spec.versions) == 1 else None,
        device=spec.devices[0] if len(spec.devices) == 1 else None,
        site=spec.sites[0] if len(spec.sites) == 1 else None,
        reason=spec.reasons[0] if len(spec.reasons) == 1 else None,
    )  # fmt: skip


def _is_of(spec: DataSetSpec, sample: FeedbackSample) -> bool:
    """What the query could not say."""
    return (
        (not spec.versions or sample.edge_version in spec.versions)
        and (not spec.devices or sample.device in spec.devices)
        and (not spec.sites or sample.site in spec.sites)
        and (not spec.reasons or sample.reason in spec.reasons)
        and spec.cloud_model in {None, sample.cloud_model}
    )


def _with(people: e.Paired, sample: FeedbackSample) -> e.Paired:
    """The cloud first, the edge second."""
    match sample.cloud_label == sample.label, sample.edge_label == sample.label:
        case True, True:
            return replace(people, both=people.both + 1)
        case True, False:
            return replace(people, first=people.first + 1)
        case False, True:
            return replace(people, second=people.second + 1)
        case _:
            return replace(people, neither=people.neither + 1)
