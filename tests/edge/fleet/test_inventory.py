"""Hardware and engines, from the files of this machine and made ones."""

from pathlib import Path

import pytest

from edge.fleet.inventory import _cpu, inventory, system_zone
from shared.fleet.reported import BYTES_MAX, ReportedInventory
from tests.edge.test_imports import loaded_by


def test_this_machine(tmp_path: Path) -> None:
    found = inventory(tmp_path, "Europe/Paris", "0af3")
    assert found.cores >= 1
    assert found.memory_bytes > 2**27
    assert found.disk_bytes > 0
    assert found.engines["onnxruntime"]
    assert (found.time_zone, found.certificate_serial) == ("Europe/Paris", "0af3")
    assert ReportedInventory.from_bytes(found.to_bytes(), BYTES_MAX) == found


def test_no_engine_is_loaded_for_it() -> None:
    loaded = loaded_by(
        "from pathlib import Path; from edge.fleet.inventory import inventory; "
        "assert inventory(Path('.'), None).engines"
    )
    assert not loaded & {"onnxruntime", "openvino", "tensorrt"}


def test_the_state_directory_may_be_gone(tmp_path: Path) -> None:
    assert inventory(tmp_path / "none", None).disk_bytes == 0


@pytest.mark.parametrize(
    ("text", "cpu"),
    [
        ("processor: 0\nmodel name\t: AMD EPYC 9B14\nmodel name: second\n", "AMD EPYC 9B14"),
        ("processor: 0\nHardware: BCM2835\nModel: Raspberry Pi 5\n", "BCM2835"),
        (f"model name: {'x' * 999}", "x" * 200),
    ],
)
def test_the_cpus_name(text: str, cpu: str) -> None:
    assert _cpu(text) == cpu


def test_the_systems_time_zone_is_a_known_one_or_utc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_file, link = tmp_path / "timezone", tmp_path / "localtime"
    monkeypatch.delenv("TZ", raising=False)
    assert system_zone(name_file, link) == "UTC"
    name_file.write_text("Asia/Tokyo\n")
    assert system_zone(name_file, link) == "Asia/Tokyo"
    link.symlink_to("/usr/share/zoneinfo/Europe/Lisbon")
    assert system_zone(name_file, link) == "Europe/Lisbon"
    monkeypatch.setenv("TZ", ":America/Lima")
    assert system_zone(name_file, link) == "America/Lima"
    monkeypatch.setenv("TZ", "../../etc/passwd")
    assert system_zone(name_file, link) == "Europe/Lisbon"
