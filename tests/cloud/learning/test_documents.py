"""Numbers that no loop can mean."""

from typing import Any

import pytest
from pydantic import ValidationError

from cloud.learning.documents import LoopSettings


@pytest.mark.parametrize("members", [
    {"triggers": {"samples_min": 10**30}}, {"triggers": {"samples": 10**30}},
    {"teacher_gate": {"labelled_min": 10**30}}, {"refit_every_s": 1e-300},
])  # fmt: skip
def test_a_loop_waits_for_nothing_that_never_comes_and_not_for_nothing(
    members: dict[str, Any],
) -> None:
    with pytest.raises(ValidationError):
        LoopSettings.model_validate({"model": "edge", "teacher": "cloud"} | members)
