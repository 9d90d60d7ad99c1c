"""Device profiles as files: the shipped ones, and bad ones."""

from pathlib import Path

import pytest

from cloud.fleet.profile_files import BYTES_MAX, read_profile
from shared.errors import Malformed, TooLarge
from shared.fleet.desired import BYTES_MAX as DESIRED_BYTES_MAX
from shared.fleet.desired import DesiredProfile
from shared.fleet.profile import digest

FOLDER = Path(__file__).parents[3] / "firmware_configs" / "profiles"
SHIPPED = sorted(FOLDER.glob("*.toml"))


def test_some_are_shipped():
    assert [file.stem for file in SHIPPED] == ["camera", "gateway", "metered-link"]


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_each_shipped_one_is_valid_and_fits_into_a_message(file):
    settings = read_profile(file)
    assert settings.model_dump(exclude_none=True)
    desired = DesiredProfile(
        generation=2**53, name=file.stem, version=10**6, sha256=digest(settings), settings=settings
    )
    assert len(desired.to_bytes()) < DESIRED_BYTES_MAX


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("treshold = 'x'", r"p\.toml: treshold: no such setting; check its spelling"),
        ("telemetry_s = 0", r"p\.toml: telemetry_s: .*greater than or equal to 1"),
        ("threshold = 'x'\nconfidence_min = 0.5", "set threshold or confidence_min, not both"),
        ("update_windows = ['25:00-26:00']", "hours end at 23"),
        ("telemetry_s =", r"p\.toml: not TOML"),
        ("\xff", r"p\.toml: "),
    ],
)
def test_a_bad_file_is_refused_with_the_setting(tmp_path, text, words):
    file = tmp_path / "p.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(Malformed, match=words):
        read_profile(file)


def test_a_file_that_is_not_there_and_one_that_is_too_long(tmp_path):
    with pytest.raises(Malformed, match="name a readable TOML file"):
        read_profile(tmp_path / "none.toml")
    (tmp_path / "long.toml").write_text("#" * (BYTES_MAX + 1))
    with pytest.raises(TooLarge, match=f"{BYTES_MAX + 1} bytes"):
        read_profile(tmp_path / "long.toml")
