"""Evaluate one claimed version, from its files to its verdict and reports."""

import asyncio
from typing import Protocol

from cloud.registry.documents import Evaluation, Hardware, RuleResult
from cloud.registry.evaluation.figures import Report
from cloud.registry.evaluation.findings import BadBundle, Finding, Findings, Subjects
from cloud.registry.evaluation.hardware import this_hardware
from cloud.registry.evaluation.page import render
from cloud.registry.evaluation.rules import parse
from cloud.registry.evaluation.settings import EvaluationSettings
from cloud.registry.evaluation.verdict import Verdict, decide, plain
from cloud.registry.evaluation.workspace import Store, Workspace
from shared.errors import HybridgeError


class Artifacts(Store, Protocol):
    """What is asked of `cloud.registry.artifacts`."""

    async def put_bytes(self, content: bytes) -> str: ...


async def evaluate(
    claimed: Evaluation, subjects: Subjects, artifacts: Artifacts, settings: EvaluationSettings
) -> Evaluation:
    """`claimed` with state, why, hardware, figures and the hashes of its reports.

    passed or failed: about the version. broken: it could not be measured (its files or the data set
    cannot be read, there is no room), which says nothing about it; the `why` says what to do.
    """
    began = asyncio.get_running_loop().time()
    hardware = await asyncio.to_thread(this_hardware)
    try:
        rule = parse(subjects.gate.rules)
        try:
            async with Workspace.made() as workspace:
                finding = Finding(subjects, artifacts, settings, workspace, hardware.fingerprint)
                found = await finding.run()
            verdict = decide(
                rule, subjects.gate.engines, found.measured, found.current, found.pairs
            )
        except BadBundle as error:
            found, verdict = Findings(), _bad_bundle(error)
        took_s = asyncio.get_running_loop().time() - began
        ended = _ended(claimed, subjects, found, verdict, hardware)
        report = _report(ended, subjects, found, hardware, settings.seed, took_s)
        return await _stored(report, artifacts)
    except HybridgeError as error:
        return broken(claimed, str(error), hardware)


def broken(claimed: Evaluation, why: str, hardware: Hardware | None) -> Evaluation:
    """It could not be measured."""
    return claimed.model_copy(update={"state": "broken", "why": plain(why), "hardware": hardware})


def _bad_bundle(error: BadBundle) -> Verdict:
    why = plain(str(error))
    result = RuleResult(rule="is a bundle that opens", variant="", holds=False, why=why)
    return Verdict("failed", why, (result,))


def _ended(
    claimed: Evaluation,
    subjects: Subjects,
    found: Findings,
    verdict: Verdict,
    hardware: Hardware,
) -> Evaluation:
    data_set = subjects.data_set
    return claimed.model_copy(
        update={
            "state": verdict.state,
            "why": verdict.why,
            "hardware": hardware,
            "data_set": None if data_set is None else f"{data_set.name} {data_set.version}",
            "metrics": {one.variant: one.metrics for one in found.measured},
            "current": None if subjects.current is None else subjects.current.version,
            "current_metrics": {
                variant: one.metrics for variant, one in found.current.measured.items()
            },
            "rules": verdict.results,
        }
    )


def _report(
    ended: Evaluation,
    subjects: Subjects,
    found: Findings,
    hardware: Hardware,
    seed: int,
    took_s: float,
) -> Report:
    return Report(
        evaluation=ended,
        hardware=hardware,
        rules=subjects.gate.rules,
        seed=seed,
        data=found.data,
        measured=found.measured,
        current=dict(found.current.measured),
        pairs=found.pairs,
        not_run=found.not_run,
        took_s=took_s,
    )


async def _stored(report: Report, artifacts: Artifacts) -> Evaluation:
    page = await asyncio.to_thread(render, report)
    text = await asyncio.to_thread(report.model_dump_json)
    return report.evaluation.model_copy(
        update={
            "report_json": await artifacts.put_bytes(text.encode()),
            "report_html": await artifacts.put_bytes(page.encode()),
        }
    )
