"""A device's regular report: counters, histograms, sketches; never a sample.

`hy/v1/{device}/up/tel`, JSON. Counters are cumulative within a tally (one version in one life of
the agent): a report that is lost, comes twice or late takes nothing away and adds nothing. The
size is bounded whatever the device sees: histograms have fixed edges, tables a fixed number of rows.
"""

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from shared.bundle.manifest import Name, Version
from shared.fleet.document import Count, Document, Text

BYTES_MAX = 20 * 1024

LATENCY_EDGES_MS: tuple[float, ...] = tuple(round(0.05 * 2 ** (i / 2), 6) for i in range(31))
"""Upper edges of the latency histogram's first 31 bins, 0.05 ms to 1.6 s; the 32nd holds the rest."""
LATENCY_BINS = len(LATENCY_EDGES_MS) + 1
CONFIDENCE_BINS = 10
"""Equal bins of calibrated confidence over 0..1."""
CLASSES_MAX = 32
"""Rows of the confidence table; the last one takes all further classes."""
FEATURES_MAX = 8
"""Sketched features of one report."""
BINS_MAX = 33
"""Bins of one feature: a reference has at most 32 edges."""
LOSSES_MAX = 32
STRATA_MAX = 8

_Latency = Annotated[
    tuple[Count, ...], Field(min_length=LATENCY_BINS, max_length=LATENCY_BINS, fail_fast=True)
]
_ConfidenceRow = Annotated[
    tuple[Count, ...], Field(min_length=CONFIDENCE_BINS, max_length=CONFIDENCE_BINS, fail_fast=True)
]
_Bins = Annotated[tuple[Count, ...], Field(min_length=2, max_length=BINS_MAX, fail_fast=True)]
FeatureName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
ReferenceHash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
Boot = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]


class Stratum(Document):
    """Samples that the edge was sure of while one audit share was in force."""

    share: Annotated[float, Field(ge=0, le=1)]
    confident: Count = 0
    """Accepted and audited ones."""
    audited: Count = 0
    answered: Count = 0
    """Audits that the cloud answered."""
    disagreed: Count = 0
    """Of those, with another label than the edge's."""


class Tally(Document):
    """What the active version did since it became active in this life of the agent."""

    model: Name
    version: Version
    started: Count = 0
    """Number of this tally in this life of the agent; rises with every swap."""
    samples: Count = 0
    escalated: Count = 0
    audited: Count = 0
    answered: Count = 0
    """Escalated and audited samples that the cloud answered."""
    disagreed: Count = 0
    """Of those, with another label than the edge's."""
    audit_answered: Count = 0
    audit_disagreed: Count = 0
    novel: Count = 0
    """Of the escalated: for an input unlike the reference, whatever the confidence."""
    strata: Annotated[tuple["Stratum", ...], Field(max_length=STRATA_MAX)] = ()
    """Confident samples by the audit share that was in force: within one, audits are drawn evenly, so
    an accuracy estimate weighs them by `confident`. The last one takes all further shares."""
    failed: Count = 0
    """Inferences that raised, or whose confidence was no number."""
    latency: _Latency = (0,) * LATENCY_BINS
    """Of the edge's own answers, by `LATENCY_EDGES_MS`."""
    confidence: Annotated[
        tuple[_ConfidenceRow, ...], Field(max_length=CLASSES_MAX, fail_fast=True)
    ] = ()
    """By predicted class."""


class Shadow(Document):
    """A candidate beside the active version, on the same samples."""

    version: Version
    started: Count = 0
    samples: Count = 0
    agreed: Count = 0
    """Same label as the active version's."""
    failed: Count = 0
    """Raised, or not finite."""
    latency: _Latency = (0,) * LATENCY_BINS
    both_right: Count = 0
    """By the cloud's label, of samples that the cloud answered and both models saw."""
    only_candidate_right: Count = 0
    only_active_right: Count = 0
    both_wrong: Count = 0


class Sketches(Document):
    """How inputs and answers are spread, in the bins of the version's own reference (`Manifest.reference`).

    Cumulative within the tally, like it.
    """

    reference: ReferenceHash
    """Of the bins that were counted in: `shared.sketches.reference_hash`. Another one cannot be held
    against that reference."""
    looked: Count = 0
    """Samples whose input was looked at: not each one is."""
    missing: Count = 0
    """Inputs in which there was nothing to see: empty, or one value all over."""
    counts: Annotated[dict[FeatureName, _Bins], Field(max_length=FEATURES_MAX)] = Field(
        default_factory=dict
    )
    """By feature: how many samples lay in each bin."""


class Health(Document):
    outbox_rows: Count = 0
    outbox_bytes: Count = 0
    disk_free_bytes: Count = 0
    memory_bytes: Count = 0
    """Resident set of the agent."""
    links_lost: Count = 0
    """Since the agent started."""
    published_bytes: Count = 0
    trouble: Text = ""
    """What is wrong, in words; empty: nothing."""


class Telemetry(Document):
    boot: Boot
    """Of this life of the agent, random."""
    sequence: Count
    """Of this report within the life."""
    at: float
    """Unix seconds by the device's clock."""
    uptime_s: Annotated[float, Field(ge=0, le=1e10)]
    interval_s: Annotated[float, Field(gt=0, le=86_400)]
    """Until the next one."""
    tally: Tally
    shadow: Shadow | None = None
    sketches: Sketches | None = None
    """None: the version has no reference."""
    health: Health = Health()
    losses: Annotated[
        dict[Annotated[str, StringConstraints(max_length=40)], Count], Field(max_length=LOSSES_MAX)
    ] = Field(default_factory=dict)
    """The loss ledger: samples given up, by reason, since the state directory was made."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        tally = self.tally
        if tally.escalated + tally.audited > tally.samples or tally.disagreed > tally.answered:
            raise ValueError("tally: its counts contradict each other")
        if tally.audit_disagreed > tally.audit_answered or tally.answered < tally.audit_answered:
            raise ValueError("tally: its audit counts contradict each other")
        if tally.novel > tally.escalated or any(
            row.audited > row.confident or row.disagreed > row.answered for row in tally.strata
        ):
            raise ValueError("tally: its strata contradict each other")
        return self
