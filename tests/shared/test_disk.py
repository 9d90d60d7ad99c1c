import errno
import os
from pathlib import Path

import pytest

from shared.disk import NoRoom, sync_folder, write_whole, writing
from shared.errors import Unavailable


def test_a_file_is_made_with_its_folder_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a"
    write_whole(path, b"old")
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]


def test_what_a_killed_writer_left_beside_it_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / ".a.tmp").write_bytes(b"half of it, and more than comes now")
    write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_a_link_beside_it_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"theirs")
    (tmp_path / ".a.tmp").symlink_to(tmp_path / "theirs")
    write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "theirs").read_bytes() == b"theirs"
    assert (tmp_path / "a").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.ENOSPC, NoRoom), (errno.EDQUOT, NoRoom), (errno.EIO, Unavailable)],
)
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, number: int, kind: type[Unavailable]
) -> None:
    path = tmp_path / "a"
    write_whole(path, b"old")

    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with (
        monkeypatch.context() as patch,
        pytest.raises(kind, match=rf"{path}: .*{os.strerror(number)}"),
    ):
        patch.setattr(os if step == "fsync" else Path, step, fails)
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_it_is_synced_then_renamed_then_its_folder_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(handle: int) -> None:
        seen.append(f"sync {Path(f'/proc/self/fd/{handle}').readlink().name}")
        fsync(handle)

    def replaced(self: Path, target: Path) -> Path:
        seen.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    write_whole(tmp_path / "a", b"x")
    assert seen == ["sync .a.tmp", "rename", f"sync {tmp_path.name}"]
    seen.clear()
    write_whole(tmp_path / "a", b"x", durable=False)
    assert seen == ["rename"]


def test_what_the_disk_says_is_told_with_the_place(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"none: cannot write it: .*; fix its folder's rights"):
        sync_folder(tmp_path / "none")
    with pytest.raises(NoRoom, match="free space on its disk"), writing(tmp_path):
        raise OSError(errno.EFBIG, "File too large")
