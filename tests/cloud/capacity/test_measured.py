from pathlib import Path

import pytest

from cloud.capacity.measured import Measured, read_measured, write_measured
from shared.errors import Malformed


def measured(qps_at_sla: float = 100.0) -> Measured:
    return Measured(
        model="tiny", model_version="1.0.0", url="http://h:1", measured_at="2027-01-01T00:00:00Z",
        rows=1, seconds=5, sla_ms=50, qps_at_sla=qps_at_sla, qps_max=120,
        held_back_by_generator=False, trials=(),
    )  # fmt: skip


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_measured(tmp_path / "m.json", measured())
    assert read_measured(tmp_path / "m.json") == measured()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "JSON"), ("{}", "model: is missing"), (" " * 1024 * 1024 + "{}", "over 1048576 bytes"),
        (measured().model_dump_json().replace("100.0", "-1"), "qps_at_sla"),
        (measured().model_dump_json().replace("100.0", "1e999"), "qps_at_sla"),
    ],
)  # fmt: skip
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / "m.json").write_text(content)
    with pytest.raises(Malformed, match=why):
        read_measured(tmp_path / "m.json")


def test_no_file_says_where_it_comes_from(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="capacity measure --out"):
        read_measured(tmp_path / "none.json")
