"""Archives that `hybridge model pack` would never write."""

import tarfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import zstandard

Member = tuple[str, bytes] | tarfile.TarInfo


def members_of(folder: Path) -> list[tuple[str, bytes]]:
    """A bundle's files as members, as they are."""
    return [
        (path.relative_to(folder).as_posix(), path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]


def tar_of(members: Iterable[Member], form: int = tarfile.USTAR_FORMAT) -> bytes:
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=form) as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
            else:
                name, content = member
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, BytesIO(content))
    return packed.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """A link, a device, a folder: anything but a plain file."""
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


def write_archive(path: Path, tar: bytes) -> Path:
    path.write_bytes(zstandard.ZstdCompressor().compress(tar))
    return path
