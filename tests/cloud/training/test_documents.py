"""What a job may be asked for."""

import pytest
from pydantic import ValidationError

from cloud.training.documents import Half


@pytest.mark.parametrize("version", ["01.0.0", "1.00.0", "1.0", "1000000.0.0", "1.0.0\n"])
def test_a_version_is_three_numbers_without_leading_zeros(version: str) -> None:
    """The registry takes no other: better refused before it is trained than after."""
    assert Half(version="10.0.0", source="edge@0.10.0", base="b").version == "10.0.0"
    for members in (
        {"version": version, "source": "edge@1.0.0"}, {"version": "2.0.0", "source": f"edge@{version}"},
    ):  # fmt: skip
        with pytest.raises(ValidationError):
            Half.model_validate(members | {"base": "b"})
