from pathlib import Path

import pytest

from shared.api_key import key_header, key_in
from shared.errors import Malformed


@pytest.mark.parametrize("key", ["two words", "new\nline", "\u00e9", "a\x00"])
def test_a_key_that_fits_no_header_is_refused(key: str) -> None:
    with pytest.raises(Malformed, match="characters that no key has"):
        key_header(key)


def test_a_key_goes_in_its_header_and_none_in_none() -> None:
    assert key_header("hyb_1") == {"X-API-Key": "hyb_1"}
    assert key_header(None) == {}


def test_a_file_holds_one_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(" hyb_1 \n")
    assert key_in(tmp_path / "key") == "hyb_1"
    assert key_in(None) is None


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"a b", b"a\nb", "schl\u00fcssel".encode(), b"k\0", b"k" * 5000]
)
def test_what_holds_none_is_refused_without_showing_it(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(Malformed, match=r"home\.key_file .*file: holds no API key") as refused:
        key_in(file, "home.key_file")
    assert not content.strip() or content not in str(refused.value).encode()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="none: No such file or directory; name a file"):
        key_in(tmp_path / "none")
