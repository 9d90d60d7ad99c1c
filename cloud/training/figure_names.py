"""What a recipe that ends in a classifier says of it in `Made.figures`, by name. Pure.

`clean` is the base data's own calibration split, which no weights saw. `holdout` is the part of the
feedback data set that was kept from training, by who labelled it. `parent` is the bundle that it
started from, run as devices run it (int8 where it has that).
"""

from typing import Final, Literal

LabelledBy = Literal["person", "cloud", "all"]

CLEAN: Final = "clean.accuracy"
CLEAN_PARENT: Final = "clean.accuracy.parent"
CLEAN_FP32: Final = "clean.accuracy.fp32"
CLEAN_ESCALATED: Final = "clean.escalated_share"
"""At the default threshold."""
FIELD_ESCALATED: Final = "field.escalated_share"
"""The same on the holdout, weighted as the field looks."""
TEMPERATURE: Final = "temperature"
CALIBRATION_ERROR: Final = "clean.calibration_error"
PARAMETERS: Final = "parameters"
GRAPH_BYTES: Final = "graph_bytes"
"""Of the int8 graph, or the smallest that there is."""
TRAIN_ROWS: Final = "train.rows"
FEEDBACK_ROWS: Final = "train.rows.feedback"


def holdout_rows(by: LabelledBy) -> str:
    return f"holdout.{by}.rows"


def holdout_accuracy(by: LabelledBy) -> str:
    """Share of right answers of the new model."""
    return f"holdout.{by}.accuracy"


def holdout_parent(by: LabelledBy) -> str:
    """Share of right answers of its parent, on the same rows."""
    return f"holdout.{by}.accuracy.parent"


def holdout_gained(by: LabelledBy) -> str:
    """Rows where the new model is right and its parent wrong; with `holdout_spoilt` what McNemar's
    test counts.
    """
    return f"holdout.{by}.gained"


def holdout_spoilt(by: LabelledBy) -> str:
    """Rows where its parent is right and the new model wrong."""
    return f"holdout.{by}.spoilt"
