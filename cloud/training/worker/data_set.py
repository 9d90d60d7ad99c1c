"""A data set out of the artifact store into a job's folder, checked by its hash."""

import hashlib
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Final

import numpy as np

from cloud.feedback.data_file import DataRows, content_hash
from cloud.registry.artifacts.blobs import Blobs
from shared.disk import writing
from shared.errors import Malformed, NotTrusted, TooLarge, Unknown
from shared.imaging.npz import unpack_npz

UNPACKED_BYTES_MAX: Final = 4 * 1024**3
_NAMES: Final = tuple(field.name for field in fields(DataRows))


def bring(blobs: Blobs, sha256: str, target: Path, bytes_max: int) -> None:
    """Blocking. Leaves the file at `target`, or nothing.

    Raises `Unknown` where it is not there, `NotTrusted` where it is another one's content, `NoRoom`,
    `Unavailable`.
    """
    try:
        _check(written(blobs, sha256, target, bytes_max), blobs, sha256, target)
    except Unknown as error:
        target.unlink(missing_ok=True)
        raise Unknown(
            f"data set {sha256[:16]}... is not in {blobs.where}: it was deleted, or this worker looks at "
            "another store than the process `learning` ([artifacts] url)"
        ) from error
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def written(blobs: Blobs, sha256: str, target: Path, bytes_max: int) -> str:
    """The file's own hash."""
    digest, size = hashlib.sha256(), 0
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            for part in blobs.parts(sha256):
                size += len(part)
                if size > bytes_max:
                    raise TooLarge(
                        f"data set {sha256[:16]}...: over {bytes_max} bytes; make a smaller one, or "
                        "raise worker.folder_bytes_max"
                    )
                digest.update(part)
                file.write(part)
    return digest.hexdigest()


def _check(found: str, blobs: Blobs, sha256: str, target: Path) -> None:
    if found != sha256 and _hash_of_rows(target, sha256) != sha256:
        raise NotTrusted(
            f"data set {sha256[:16]}...: {blobs.where} has other rows under its name; make the data set "
            "anew, and look at what changed the file"
        )


def _hash_of_rows(path: Path, sha256: str) -> str:
    """Of the arrays (`cloud/feedback/data_file.py`): the zip around them may be packed anew."""
    where = f"data set {sha256[:16]}..."
    packed = unpack_npz(
        path.read_bytes(), where, bytes_max=UNPACKED_BYTES_MAX, arrays_max=len(_NAMES)
    )
    if missing := [name for name in _NAMES if f"{name}.npy" not in packed]:
        raise Malformed(f"{where}: lacks {', '.join(missing)}; make the data set anew")
    try:
        arrays = {
            name: np.lib.format.read_array(BytesIO(packed[f"{name}.npy"]), allow_pickle=False)
            for name in _NAMES
        }
    except ValueError as error:
        raise Malformed(f"{where}: {str(error)[:200]}; make the data set anew") from error
    return content_hash(DataRows(**arrays))
