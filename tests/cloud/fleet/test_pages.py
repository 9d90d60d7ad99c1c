"""docs/devices.md and docs/profiles.md say what the code does."""

import re
from pathlib import Path

import pytest

from cloud.fleet.device_settings import DeviceSettings, PresenceSettings
from cloud.fleet.profile_files import read_profile
from cloud.fleet.selector import BUILT_IN, LASTING
from cloud.fleet.selector_parser import REQUIREMENTS_MAX, TEXT_MAX, VALUES_MAX, parse
from shared.fleet.profile import ProfileSettings

ROOT = Path(__file__).parents[3]
DEVICES = (ROOT / "docs" / "devices.md").read_text()
PROFILES = (ROOT / "docs" / "profiles.md").read_text()


def _column(page: str, heading: str) -> list[list[str]]:
    """Rows of the table whose first heading is that one, as cells."""
    lines = page.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("cell", [row[0] for row in _column(DEVICES, "requirement")])
def test_the_selectors_of_the_page_parse(cell):
    for text in re.findall(r"`([^`]+)`", cell):
        assert parse(text).requirements


def test_the_bounds_and_names_of_selectors_are_on_the_page():
    bounds = f"{TEXT_MAX} characters, {REQUIREMENTS_MAX} requirements, {VALUES_MAX} values"
    assert bounds in DEVICES
    assert all(f"`{name}`" in DEVICES for name in (*BUILT_IN, *LASTING))


def test_the_settings_of_the_page_have_these_defaults():
    settings = DeviceSettings()
    for name, default, _ in _column(DEVICES, "setting of `[devices]`"):
        assert getattr(settings, name.strip("`")) == int(default)
    presence = PresenceSettings()
    assert f"More than {presence.changes_max} changes in {presence.window_s / 60:.0f}" in DEVICES
    assert (presence.quarantine_s, presence.quarantine_s_max) == (1800, 86_400)


def test_the_modules_of_the_page_are_there():
    for cells in _column(DEVICES, "part"):
        for name in re.findall(r"`([\w/]+\.py)`", " ".join(cells)):
            assert (ROOT / "cloud" / "fleet" / name).is_file(), name


def test_every_setting_of_a_profile_is_on_the_page():
    names = [row[0].strip("`") for row in _column(PROFILES, "setting")]
    assert names == list(ProfileSettings.model_fields)


def test_the_profile_that_the_page_pushes_is_one():
    ((name, file),) = re.findall(r"hybridge profile push (\S+) 1 (\S+)", PROFILES)
    assert read_profile(ROOT / file).telemetry_s == 600
    assert Path(file).stem == name
