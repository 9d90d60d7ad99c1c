"""Whether rows can teach anything, said in words where they cannot. Pure."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

CLASSES_MIN: Final = 2


def why_not(
    labels: NDArray[np.int64], holdout: NDArray[np.bool_], excluded: Mapping[str, int]
) -> str:
    """Nothing for rows that can. `labels`, `holdout`: [N]; `excluded` says what became of others."""
    left_out = ", ".join(f"{count} {reason}" for reason, count in sorted(excluded.items()))
    besides = f" (left out: {left_out})" if left_out else ""
    if not len(labels):
        return (
            f"no sample that may be taken matches{besides}; widen the times, versions, devices or "
            "sites, lower cloud_confidence_min, or wait for more samples"
        )
    train = labels[~holdout]
    if not len(train):
        return f"all {len(labels)} rows are held out{besides}; lower holdout_share, or take more"
    classes = np.unique(train)
    if len(classes) < CLASSES_MIN:
        return (
            f"all {len(train)} rows to train on are of class {classes[0]}{besides}; a model learns "
            f"from {CLASSES_MIN} classes or more: widen the times, devices or sites, or raise rows_max"
        )
    return ""
