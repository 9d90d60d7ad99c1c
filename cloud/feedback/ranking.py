"""Which label of a sample counts: person > cloud model > edge model. Pure.

People who disagree contradict each other; then none of them is right enough to teach, and neither is
the cloud, or nobody would have asked them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cloud.feedback.documents import Label, Source

CODES: Final = {Source.PERSON: 0, Source.CLOUD: 1, Source.EDGE: 2}
"""As `DataRows.sources` has them, the most trusted first."""


@dataclass(frozen=True, slots=True)
class Verdict:
    label: int
    source: Source
    contradicted: bool = False


def verdict(people: Sequence[Label], cloud_label: int) -> Verdict:
    """`people`: one word each, in any order. The newest stands for them while they disagree."""
    if not people:
        return Verdict(cloud_label, Source.CLOUD)
    newest = max(people, key=lambda one: (one.at, one.by))
    return Verdict(newest.label, Source.PERSON, len({one.label for one in people}) > 1)
