import tarfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.bundle.archive import read_archive
from shared.bundle.files import MEMBERS_MAX
from shared.bundle.reader import open_bundle
from shared.errors import HybridgeError, Malformed, NotTrusted, TooLarge
from tests.shared.bundle.hostile_archives import (
    Member,
    members_of,
    special,
    tar_of,
    write_archive,
)
from tests.tiny_bundle import write_tiny_bundle


@pytest.fixture
def members(tmp_path: Path) -> list[tuple[str, bytes]]:
    return members_of(write_tiny_bundle(tmp_path / "bundle"))


def test_plain_archive_opens(tmp_path: Path, members: list[tuple[str, bytes]]) -> None:
    archive = write_archive(tmp_path / "a.hyb", tar_of(members))
    assert read_archive(archive) == dict(members)
    assert open_bundle(archive).manifest.name == "tiny-edge"


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (("../evil", b"x"), "'../evil' is not a plain relative path"),
        (("variants/../../evil", b"x"), "not a plain relative path"),
        (("/etc/evil", b"x"), "'/etc/evil' is not a plain relative path"),
        (("C:\\evil", b"x"), "not a plain relative path"),
        (("a\nb", b"x"), "not a plain relative path"),
        (("./card.md", b"x"), "not a plain relative path"),
        (special("link", tarfile.SYMTYPE, "/etc/passwd"), "link is not a plain file"),
        (special("link", tarfile.LNKTYPE, "card.md"), "link is not a plain file"),
        (special("device", tarfile.CHRTYPE), "device is not a plain file"),
        (special("device", tarfile.BLKTYPE), "device is not a plain file"),
        (special("pipe", tarfile.FIFOTYPE), "pipe is not a plain file"),
        (special("folder", tarfile.DIRTYPE), "folder is not a plain file"),
        (("card.md", b"again"), "card.md stands in it twice"),
        (("CARD.md", b"again"), "CARD.md stands in it twice"),
        (("card.md/inside", b"x"), "a file and a folder at once"),
        (("variants", b"x"), "a file and a folder at once"),
    ],
)
def test_unsafe_members_are_not_trusted(
    tmp_path: Path, members: list[tuple[str, bytes]], member: Member, said: str
) -> None:
    outside = set(tmp_path.iterdir())
    archive = write_archive(tmp_path / "a.hyb", tar_of([*members, member]))
    with pytest.raises(NotTrusted) as refusal:
        open_bundle(archive)
    assert said in str(refusal.value)
    assert str(archive) in str(refusal.value)
    assert set(tmp_path.iterdir()) == {*outside, archive}


def test_extended_headers_are_not_trusted(tmp_path: Path) -> None:
    info = tarfile.TarInfo("card.md")
    info.pax_headers = {"comment": "x"}
    archive = write_archive(tmp_path / "a.hyb", tar_of([info], tarfile.PAX_FORMAT))
    with pytest.raises(NotTrusted, match="not a plain file"):
        read_archive(archive)


def test_too_many_members(tmp_path: Path) -> None:
    names = [(f"file-{number}", b"") for number in range(MEMBERS_MAX + 1)]
    with pytest.raises(TooLarge, match=f"more than {MEMBERS_MAX} members"):
        read_archive(write_archive(tmp_path / "a.hyb", tar_of(names)))


def test_a_bomb_is_refused_by_the_size_it_states(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "a.hyb", tar_of([("zeros", bytes(8_000_000))]))
    assert archive.stat().st_size < 20_000
    with pytest.raises(TooLarge, match=r"unpacks to 80\d+ bytes; at most 1000000"):
        read_archive(archive, bytes_max=1_000_000)


def test_a_bomb_that_lies_about_its_size_is_stopped_while_streaming(tmp_path: Path) -> None:
    small = zstandard.ZstdCompressor().compress(tar_of([("a", b"x")]))
    bomb = zstandard.ZstdCompressor().compress(bytes(100_000_000))
    (archive := tmp_path / "a.hyb").write_bytes(small + bomb)
    with pytest.raises(TooLarge, match="unpacks to more than it states"):
        read_archive(archive)


def test_a_frame_without_a_stated_size_is_refused(tmp_path: Path) -> None:
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(tar_of([("a", b"x")]))
    (archive := tmp_path / "a.hyb").write_bytes(frame)
    with pytest.raises(Malformed, match="does not say its unpacked size"):
        read_archive(archive)


def test_not_an_archive_at_all(tmp_path: Path) -> None:
    (archive := tmp_path / "a.hyb").write_bytes(b"PK\x03\x04 this is a zip file")
    with pytest.raises(Malformed, match="not a bundle archive"):
        read_archive(archive)


def test_zstandard_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="not a readable bundle archive"):
        read_archive(write_archive(tmp_path / "a.hyb", b"this is not a tar file" * 100))


def test_data_behind_the_end_is_refused(tmp_path: Path) -> None:
    tar = tar_of([("a", b"x")]) + b"hidden" * 2000
    with pytest.raises(Malformed, match="data follows the end"):
        read_archive(write_archive(tmp_path / "a.hyb", tar))


def test_truncations_are_refused(tmp_path: Path, members: list[tuple[str, bytes]]) -> None:
    whole = write_archive(tmp_path / "a.hyb", tar_of(members)).read_bytes()
    cut = tmp_path / "cut.hyb"
    for length in {*range(0, len(whole), 7), *range(len(whole) - 20, len(whole))}:
        cut.write_bytes(whole[:length])
        with pytest.raises(Malformed, match=r"cut\.hyb"):
            read_archive(cut)


def test_a_tar_cut_before_it_was_compressed(
    tmp_path: Path, members: list[tuple[str, bytes]]
) -> None:
    tar = tar_of(members)
    for length in (100, 600, 1100, 2000):
        with pytest.raises(HybridgeError):
            open_bundle(write_archive(tmp_path / "cut.hyb", tar[:length]))


def test_a_frame_cut_behind_the_last_member(
    tmp_path: Path, members: list[tuple[str, bytes]]
) -> None:
    tar = tar_of(members)
    frame = zstandard.ZstdCompressor().compressobj(size=len(tar))
    whole_blocks = frame.compress(tar[:-512]) + frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    (archive := tmp_path / "a.hyb").write_bytes(whole_blocks)
    with pytest.raises(Malformed, match="cut short, 512 bytes are missing"):
        read_archive(archive)


def test_a_sparse_map_of_junk(tmp_path: Path) -> None:
    info = tarfile.TarInfo("card.md")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "size": "512"}
    tar = tar_of([info], tarfile.PAX_FORMAT)
    junk = tar.rstrip(b"\0").ljust(-(-len(tar.rstrip(b"\0")) // 512) * 512, b"\0") + b"junk\n" * 400
    with pytest.raises(Malformed, match="not a readable bundle archive"):
        read_archive(write_archive(tmp_path / "a.hyb", junk))


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_whatever_the_tar_holds_the_refusal_is_ours(
    tmp_path: Path, members: list[tuple[str, bytes]], data: st.DataObject
) -> None:
    tar = bytearray(tar_of(members[:2]))
    for _ in range(data.draw(st.integers(1, 8))):
        tar[data.draw(st.integers(0, 700))] = data.draw(st.integers(0, 255))
    archive = write_archive(tmp_path / "fuzzed.hyb", bytes(tar))
    try:
        read_archive(archive)
    except HybridgeError as error:
        assert "fuzzed.hyb" in str(error)  # noqa: PT017 - most examples raise, some do not
