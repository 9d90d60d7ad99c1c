"""A data set out of the artifact store into a job's folder, checked by its hash."""

import threading
from pathlib import Path

from cloud.feedback.data_file import read_rows
from cloud.registry.artifacts.blobs import Blobs
from shared.disk import writing
from shared.errors import TooLarge, Unavailable, Unknown


def bring(
    blobs: Blobs, sha256: str, target: Path, bytes_max: int, cut: threading.Event | None = None
) -> None:
    """Blocking. Leaves the file at `target`, or nothing. `cut`: nobody wants it any more.

    Raises `Unknown` where it is not there, `NotTrusted` where it holds other rows, `Malformed` where it
    is none, `NoRoom`, `Unavailable`.
    """
    try:
        written(blobs, sha256, target, bytes_max, cut)
        read_rows(target.read_bytes(), f"data set {sha256[:16]}... of {blobs.where}", sha256)
    except Unknown as error:
        target.unlink(missing_ok=True)
        raise Unknown(
            f"data set {sha256[:16]}... is not in {blobs.where}: it was deleted, or this worker looks at "
            "another store than the process `learning` ([artifacts] url)"
        ) from error
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def written(
    blobs: Blobs, sha256: str, target: Path, bytes_max: int, cut: threading.Event | None = None
) -> None:
    """A file of the store, unchecked. Blocking. Raises as `bring`."""
    size = 0
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            for part in blobs.parts(sha256):
                if cut is not None and cut.is_set():
                    raise Unavailable(f"{sha256[:16]}... of {blobs.where}: cut on the way")
                size += len(part)
                if size > bytes_max:
                    raise TooLarge(
                        f"{sha256[:16]}... of {blobs.where}: over {bytes_max} bytes; make a smaller one, or "
                        "raise worker.folder_bytes_max"
                    )
                file.write(part)
