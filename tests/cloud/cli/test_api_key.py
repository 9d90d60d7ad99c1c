"""Where a command's API key comes from, and what is no key."""

from pathlib import Path

import pytest

from cloud.cli.api_key import read_key
from shared.errors import Malformed


def test_a_file_goes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYBRIDGE_API_KEY", "hy_environment\n")
    (tmp_path / "key").write_text(" hy_file\n")
    assert read_key(tmp_path / "key") == "hy_file"
    assert read_key(None) == "hy_environment"


def test_there_may_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRIDGE_API_KEY", "")
    assert read_key(None) is None
    monkeypatch.delenv("HYBRIDGE_API_KEY")
    assert read_key(None) is None


@pytest.mark.parametrize("text", ["a b", "a\nX-Role: root", "a\x7f", "\u00e9", "x" * 5000])
def test_what_fits_no_header_is_refused_without_showing_it(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYBRIDGE_API_KEY", text)
    (tmp_path / "key").write_text(text, "utf-8")
    for file in (None, tmp_path / "key"):
        with pytest.raises(Malformed) as refused:
            read_key(file)
        assert text not in str(refused.value)


def test_an_empty_file_and_none_at_all_are_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("\n")
    for name in ("key", "missing"):
        with pytest.raises(Malformed, match=name):
            read_key(tmp_path / name)
