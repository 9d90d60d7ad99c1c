"""How often the loops look, and how they begin."""

from typing import Annotated

from pydantic import Field

from cloud.learning.documents import LoopSettings
from cloud.learning.store.settings import LoopsKept
from shared.config import Positive


class Loops(LoopsKept):
    """What each model's loop does is in its own settings (`PUT /v1/loops/MODEL`)."""

    declared: Annotated[tuple[LoopSettings, ...], Field(max_length=64)] = ()
    """Loops that this file has; at each start they are put as they stand here, over whatever
    somebody changed through the API. Default: loops are made through the API."""
    trigger_s: Positive = 15.0
    """Between two looks at whether a cycle should begin: new samples, alarms, the clock."""
    look_s: Positive = 2.0
    """Between two looks of a cycle at what it waits for: jobs, the registry and the fleet are other
    processes."""
    count_s: Positive = 10.0
    """Between two counts of samples; each reads the labels of the holdout."""
    away_s: Positive = 10.0
    """Before what could not be done is tried again: the client has tried for `patience_s` before."""
    labels_read_max: Annotated[int, Field(ge=100, le=1_000_000)] = 20_000
    """Samples with a person's label that are read to judge the teacher, the newest first."""
