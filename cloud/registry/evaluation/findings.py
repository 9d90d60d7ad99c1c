"""Everything measured for one version: its gated variants, the current release beside, the rest."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from cloud.registry.documents import DataSet, Gate, ModelVersion
from cloud.registry.evaluation.company import compare_all
from cloud.registry.evaluation.data_set import check_fits, parse_data_set
from cloud.registry.evaluation.figures import Measured, Pair
from cloud.registry.evaluation.material import Material, golden_data, lay_out
from cloud.registry.evaluation.measurement import Measurement
from cloud.registry.evaluation.rules import NoCurrent
from cloud.registry.evaluation.settings import EvaluationSettings
from cloud.registry.evaluation.sides import counterpart, under_gate
from cloud.registry.evaluation.taking import Taking
from cloud.registry.evaluation.verdict import Current
from cloud.registry.evaluation.workspace import Store, Workspace
from shared.bundle.reader import Bundle
from shared.errors import HybridgeError, Malformed, TooLarge


class BadBundle(Malformed):
    """The version's own files do not make a bundle: a finding about it."""


@dataclass(frozen=True, slots=True)
class Subjects:
    """What is evaluated, on what, beside what."""

    gate: Gate
    version: ModelVersion
    data_set: DataSet | None
    current: ModelVersion | None  # another version than the one under evaluation
    nothing: NoCurrent = field(default_factory=NoCurrent)  # why there is no `current`


@dataclass(frozen=True, slots=True)
class Findings:
    data: str = "nothing"  # what was measured on, in words
    measured: tuple[Measured, ...] = ()
    current: Current = field(default_factory=Current)
    pairs: tuple[Pair, ...] = ()
    not_run: dict[str, str] = field(default_factory=dict)


class Finding:
    """One evaluation's work, in its own workspace; `fingerprint` names this machine."""

    def __init__(
        self,
        subjects: Subjects,
        store: Store,
        settings: EvaluationSettings,
        workspace: Workspace,
        fingerprint: str,
    ) -> None:
        self._subjects = subjects
        self._store = store
        self._settings = settings
        self._workspace = workspace
        self._fingerprint = fingerprint

    async def run(self) -> Findings:
        """Raises `BadBundle`; any other error is not the version's fault."""
        try:
            bundle = await self._bundle(self._subjects.version)
        except (Malformed, TooLarge) as error:
            raise BadBundle(str(error)) from error
        material = await self._material(bundle)
        measurement = Measurement(material, self._settings, self._workspace)
        why_not, rival = await self._rival(bundle, material)
        gated, beside = await self._side_by_side(bundle, rival, measurement)
        others = await self._surveyed(bundle, gated, measurement)
        pairs = compare_all([*gated, *others])
        if rival is not None:
            known = list(beside.values())
            compare_all([*known, *await self._surveyed(rival, known, measurement)])
        no_current = self._subjects.nothing if self._subjects.current is None else None
        return Findings(
            data=material.words,
            measured=tuple(taking.measured(self._fingerprint) for taking in gated),
            current=Current(
                {key: taking.measured(self._fingerprint) for key, taking in beside.items()},
                no_current,
                why_not,
            ),
            pairs=pairs,
            not_run={
                taking.variant.key: taking.broke or taking.absent
                for taking in others
                if taking.broke or taking.absent
            },
        )

    async def _bundle(self, version: ModelVersion) -> Bundle:
        return await self._workspace.bundle(version, self._store, self._settings.bundle_bytes_max)

    async def _material(self, bundle: Bundle) -> Material:
        data_set = self._subjects.data_set
        if data_set is None:
            data = golden_data(bundle)
            words = (
                f"the bundle's {data.rows} golden samples, labelled by the fp32 reference's own "
                "winners: figures say how faithful a variant is, not how right"
            )
        else:
            where = f"data set {data_set.name} {data_set.version}"
            content = await self._store.read(data_set.file.sha256, data_set.file.bytes)
            data = await asyncio.to_thread(
                parse_data_set, content, where, self._settings.data_bytes_max
            )
            check_fits(
                data, bundle.manifest, where, self._settings.rows_min, self._settings.data_bytes_max
            )
            words = f"{where}, {data.rows} rows"
        return await lay_out(data, words, self._settings, self._workspace)

    async def _rival(self, bundle: Bundle, material: Material) -> tuple[str, Bundle | None]:
        """The current release, where it can be asked the same; else why not."""
        if self._subjects.current is None:
            return "", None
        try:
            rival = await self._bundle(self._subjects.current)
            if bundle.manifest.labels and rival.manifest.labels:
                check_fits(material.data, rival.manifest, "the data", 1)
        except HybridgeError as error:
            return str(error), None
        return "", rival

    async def _side_by_side(
        self, bundle: Bundle, rival: Bundle | None, measurement: Measurement
    ) -> tuple[list[Taking], dict[str, Taking]]:
        """Each variant under the gate with its counterpart; one such pair at a time."""
        engines = self._subjects.gate.engines
        gated: list[Taking] = []
        beside: dict[str, Taking] = {}
        for variant in under_gate(bundle.manifest, engines):
            takings = [Taking(bundle, variant)]
            if rival is not None:
                other = Taking(rival, counterpart(variant, rival.manifest, engines))
                beside[variant.key] = other
                takings.append(other)
            await measurement.side_by_side(takings)
            gated.append(takings[0])
        return gated, beside

    async def _surveyed(
        self, bundle: Bundle, measured: Sequence[Taking], measurement: Measurement
    ) -> list[Taking]:
        """The bundle's other variants, for parity alone."""
        known = {taking.variant.key for taking in measured}
        others = [Taking(bundle, one) for one in bundle.manifest.variants if one.key not in known]
        for other in others:
            await measurement.survey(other)
        return others
