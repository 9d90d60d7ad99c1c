"""The NPZ format (a zip of NPY files), read without trust: nothing unpacks to more than it states.

Two gaps of `zipfile` are closed here. It reads a zip's whole directory into objects before anybody
can count them: 50 bytes of file become 500 of memory. And it unpacks LZMA and BZIP2 members whole,
whatever size they state (`ZipExtFile._read2`): 200 KB become gigabytes. `numpy` writes neither.
"""

import struct
import zipfile
import zlib
from io import BytesIO

from shared.errors import Malformed, TooLarge

_END = struct.Struct("<4s4H2LH")
"""Of a zip (APPNOTE 4.3.16): mark, two disks, entries here and in all, the directory's size and
offset, and the comment's length, which `numpy` leaves at none."""
_END_MARK = b"PK\x05\x06"
_ENTRY_BYTES_MAX = 1024  # a name, and the few fields that large members have
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


def unpack_npz(content: bytes, where: str, *, bytes_max: int, arrays_max: int) -> dict[str, bytes]:
    """The NPY files by their names, as `inputs.npy`; together at most `bytes_max`.

    Raises `Malformed` or `TooLarge`.
    """
    _check_directory(content, where, arrays_max)
    try:
        with zipfile.ZipFile(BytesIO(content)) as packed:
            members = packed.infolist()
            _check_members(members, where, bytes_max)
            return {member.filename: packed.read(member) for member in members}
    except (
        zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError, EOFError,
        OSError, ValueError,
    ) as error:  # fmt: skip
        raise Malformed(f"{where}: not a readable .npz file: {str(error)[:200]}") from error


def _check_directory(content: bytes, where: str, arrays_max: int) -> None:
    """Before `zipfile` believes it. It stands where files without a comment have it, or nowhere."""
    end = content[-_END.size :]
    if len(end) < _END.size or not end.startswith(_END_MARK):
        raise Malformed(f"{where}: not a readable .npz file: save it with numpy.savez")
    _, _, _, _, entries, size, _, _ = _END.unpack(end)
    if entries > arrays_max or size > arrays_max * _ENTRY_BYTES_MAX:
        raise TooLarge(f"{where}: a directory of {entries} arrays; at most {arrays_max} are read")


def _check_members(members: list[zipfile.ZipInfo], where: str, bytes_max: int) -> None:
    names = {member.filename for member in members}
    if len(names) != len(members):
        raise Malformed(f"{where}: not a readable .npz file: an array stands there twice")
    if any(member.compress_type not in _METHODS for member in members):
        raise Malformed(f"{where}: packed as numpy does not; save it with numpy.savez_compressed")
    if (total := sum(member.file_size for member in members)) > bytes_max:
        raise TooLarge(f"{where}: unpacks to {total} bytes; at most {bytes_max}; use fewer samples")
