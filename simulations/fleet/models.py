"""Versions of a model as they show on devices: how often they err, how sure they are, how fast. Pure."""

import hashlib
from dataclasses import dataclass, replace
from typing import Literal

MODEL = "edge"
Break = Literal["", "load", "nan", "golden", "swap"]


@dataclass(frozen=True, slots=True)
class Traits:
    """Of one version, beside what each device adds of its own.

    Hard samples are those below the escalation threshold, the others are easy.
    """

    version: str
    kind: str = ""
    """Its name in `CANDIDATES`."""
    easy_error: float = 0.0
    """Added to each device's own error rate on easy samples, against the cloud's label."""
    hard_error: float = 0.0
    hard_share: float = 1.0
    """Times each device's own share of hard samples."""
    slowness: float = 1.0
    """Times each device's own latency."""
    fails: float = 0.0
    """Share of inferences that raise or are not finite."""
    breaks: Break = ""
    """load: its process dies when it opens it; nan, golden: as the probe finds it; swap: the agent dies
    of it soon after it took over."""
    churn: float = 0.015
    """Share of samples on which it differs from the version before in each direction, beyond what
    the difference of their error rates demands: a retrained model errs elsewhere."""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(f"manifest of {self.version}".encode()).hexdigest()


ACTIVE = Traits("1.0.0")
_NEW = "1.1.0"

CANDIDATES: dict[str, Traits] = {
    "good": Traits(_NEW),
    "better": Traits(_NEW, easy_error=-0.005, hard_error=-0.03, hard_share=0.95),
    "worse": Traits(_NEW, easy_error=0.0135, hard_error=0.08),  # 2 points: 0.9 x 1.35 + 0.1 x 8
    "crash": Traits(_NEW, breaks="load"),
    "crash-late": Traits(_NEW, breaks="swap"),
    "nan": Traits(_NEW, breaks="nan", fails=0.05),
    "golden": Traits(_NEW, breaks="golden"),
    "slow": Traits(_NEW, slowness=5.0),
    "slower": Traits(_NEW, slowness=2.2),  # passes the device's own limit of three times
    "sure-and-wrong": Traits(_NEW, easy_error=0.06, hard_share=0.4),
    "unsure": Traits(_NEW, hard_share=2.5),
    "flaky": Traits(_NEW, fails=0.01),
}
"""By name; the version is the same for all, what it does is not."""


def candidate(kind: str, version: str = _NEW) -> Traits:
    return replace(CANDIDATES[kind], version=version, kind=kind)
