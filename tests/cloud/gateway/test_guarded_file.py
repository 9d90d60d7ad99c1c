import os
from pathlib import Path

import pytest

from cloud.gateway.guarded_file import FILE_BYTES_MAX, read_guarded
from shared.errors import Malformed, NotTrusted, TooLarge, Unknown


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text("text")
    path.chmod(0o600)
    return path


def test_a_file_of_ones_own_is_read(file, caplog):
    assert read_guarded(file) == "text"
    file.chmod(0o400)
    assert read_guarded(file) == "text"
    assert not caplog.records


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o604, 0o644, 0o666, 0o777, 0o610])
def test_one_that_others_may_change_or_read_is_refused(file, mode):
    file.chmod(mode)
    with pytest.raises(NotTrusted, match=f"mode {mode:04o} lets others in; chmod 600"):
        read_guarded(file)


def test_one_that_the_group_may_read_is_read_with_a_warning(file, caplog):
    file.chmod(0o640)
    assert read_guarded(file) == "text"
    assert [r.message for r in caplog.records] == ["group_may_read"]


@pytest.mark.parametrize(("mode", "fine"), [(0o644, True), (0o664, False), (0o646, False)])
def test_a_public_one_may_be_read_by_all_and_changed_by_one(file, mode, fine, caplog):
    file.chmod(mode)
    if fine:
        assert read_guarded(file, is_secret=False) == "text"
        assert not caplog.records
    else:
        with pytest.raises(NotTrusted):
            read_guarded(file, is_secret=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_one_that_belongs_to_another_user_is_refused(file):
    os.chown(file, 12_345, -1)
    with pytest.raises(NotTrusted, match="belongs to user 12345"):
        read_guarded(file)


def test_what_is_not_there_or_no_file_is_told(tmp_path):
    with pytest.raises(Unknown, match="No such file"):
        read_guarded(tmp_path / "none")
    with pytest.raises(Unknown, match="Is a directory"):
        read_guarded(tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(Unknown, match="not a file"):  # and it is not waited for
        read_guarded(tmp_path / "pipe")


def test_too_much_and_not_text_are_told(file):
    file.write_bytes(b"ok\n\xff\n")
    with pytest.raises(Malformed, match="line 2: not UTF-8"):
        read_guarded(file)
    with file.open("wb") as sparse:
        sparse.truncate(FILE_BYTES_MAX + 1)
    with pytest.raises(TooLarge, match="over 32 MiB"):
        read_guarded(file)
