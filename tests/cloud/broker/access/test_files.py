from pathlib import Path

import pytest

from cloud.broker.access.files import FILE_BYTES_MAX, read_acl, read_passwords
from cloud.broker.access.identity import Identity
from cloud.broker.access.passwords import with_user
from shared.errors import Malformed, TooLarge, Unknown


def test_both_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    path.write_text(with_user("", "ann", b"x", bytes(16), "passwords"))
    assert read_passwords(path).verify("ann", b"x")
    path = tmp_path / "acl"
    path.write_bytes(b"\xef\xbb\xbftopic write \xc3\xa9t\xc3\xa9\r\n")
    assert read_acl(path).rules(Identity("c", None)).may_publish("été")


def test_a_bad_line_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("nonsense\n")
    for read in (read_passwords, read_acl):
        with pytest.raises(Malformed, match=f"{path}, line 1: "):
            read(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "gone", tmp_path):
        with pytest.raises(Unknown, match=f"{path}: .*; name a file that the broker may read"):
            read_acl(path)


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "binary"
    path.write_bytes(b"# one\n# two \xff\n")
    with pytest.raises(Malformed, match="line 2: not UTF-8"):
        read_passwords(path)


def test_a_file_that_is_none_of_ours_is_not_read_whole() -> None:
    with pytest.raises(TooLarge, match=f"over {FILE_BYTES_MAX >> 20} MB"):
        read_acl(Path("/dev/zero"))
