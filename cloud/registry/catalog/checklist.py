"""The pre-launch checklist: what a version still lacks before it may be released. Pure."""

from collections.abc import Collection
from typing import Final

from cloud.registry.documents import Evaluation, Model, ModelVersion, State

CARD_SAYS: Final = ("task", "training data", "limits", "failure modes")
"""Words that a model card must hold, in any case (after Mitchell et al. 2019, "Model Cards")."""
_RELEASABLE = frozenset({State.CANDIDATE, State.RELEASED})


def missing(
    version: ModelVersion,
    model: Model,
    evaluation: Evaluation | None,
    *,
    trust: bool,
    card: str | None = None,
    backbone: State | None = None,
    artifacts_missing: Collection[str] = (),
) -> list[str]:
    """Say what is missing, with what to do about each; empty when nothing is.

    `evaluation` is the newest that ended, `trust` whether signed metadata names the version,
    `card` the model card's text where it is at hand, `backbone` the state of the version's backbone
    where it names one, `artifacts_missing` those of its files (SHA-256) that the store lacks.
    """
    found = [
        *_of_state(version),
        *_of_evaluation(model, evaluation),
        *_of_people(version, model),
        *_of_documents(version),
        *_of_card(card),
    ]
    if (named := version.backbone) is not None and backbone is not State.RELEASED:
        found.append(
            f"its backbone {named.name} {named.version} is {backbone or 'not here'}; release it first"
        )
    if artifacts_missing:
        found.append(
            f"{len(artifacts_missing)} of its files are not in the artifact store; push it again"
        )
    if not trust:
        found.append("no signed metadata names it; sign the release (hybridge model release)")
    return found


def _of_state(version: ModelVersion) -> list[str]:
    if version.deleted:
        return ["it is deleted"]
    if version.state in _RELEASABLE:
        return []
    return [f"it is {version.state}, not a candidate: {version.why}"]


def _of_evaluation(model: Model, evaluation: Evaluation | None) -> list[str]:
    if evaluation is None:
        return [f"no evaluation of it has ended; hybridge model evaluate {model.name}"]
    found = []
    if evaluation.state != "passed":
        found.append(f"its newest evaluation {evaluation.state}: {evaluation.why}")
    if evaluation.started_seq < model.gate_revision:
        found.append("the gate was changed after its evaluation began; evaluate it again")
    if evaluation.hardware is None:
        found.append("its evaluation does not say on which hardware; evaluate it again")
    measured = {variant.partition("/")[0] for variant in evaluation.metrics}
    found += [
        f"it was not measured on {engine}, which the gate asks for; evaluate it where that runs"
        for engine in model.gate.engines
        if engine not in measured
    ]
    wanted = model.gate.data_set
    if wanted is not None and (evaluation.data_set or "").partition(" ")[0] != wanted:
        found.append(f"it was not measured on the gate's data set {wanted}; evaluate it again")
    return found


def _of_people(version: ModelVersion, model: Model) -> list[str]:
    if model.gate.approval != "person":
        return []
    if version.approval is None:
        return ["no approver has approved it, as the gate asks; hybridge model approve"]
    if version.approval.seq < model.gate_revision:
        return ["it was approved before the gate was changed; look again: hybridge model approve"]
    return []


def _of_documents(version: ModelVersion) -> list[str]:
    found = []
    card = [file for file in version.files if file.sha256 == version.card]
    if not card or not card[0].bytes:
        found.append("its model card is empty; write task, training data, limits, failure modes")
    found += [
        f"its lineage does not say its {words}; set lineage.{member} in the manifest"
        for member, words in (("data_set", "training data"), ("code_version", "code version"))
        if not version.lineage.get(member)
    ]
    return found


def _of_card(card: str | None) -> list[str]:
    if not card:
        return []
    said = card.lower()
    silent = [words for words in CARD_SAYS if words not in said]
    return [f"its model card says nothing of {', '.join(silent)}; write that"] if silent else []
