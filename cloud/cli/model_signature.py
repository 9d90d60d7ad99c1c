"""Whether a bundle is a release: its signature checked here, without a registry."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cloud.cli.model_fetch import signature_beside

if TYPE_CHECKING:
    from shared.bundle.reader import Bundle
    from shared.trust.signature import SignedBy


def check_release(bundle: "Bundle", path: Path, root: Path, signature: Path | None) -> "SignedBy":
    """`signature` None: the one beside the bundle. Raises `Malformed`, `TooLarge`, `NotTrusted`."""
    from shared.trust.names import ROOT_BYTES_MAX
    from shared.trust.signature import SIGNATURE_BYTES_MAX, check_signature

    file = signature or signature_beside(path)
    return check_signature(
        bundle, _read(file, SIGNATURE_BYTES_MAX), _read(root, ROOT_BYTES_MAX), datetime.now(UTC)
    )


def signature_text(signed: "SignedBy") -> str:
    keys = ", ".join(key[:12] for key in signed.keys)
    return (
        f"release {signed.number}, signed by {keys} under root {signed.root_version}, believed until "
        f"{signed.expires:%Y-%m-%d}"
    )


def tree_of_signature(signed: "SignedBy") -> dict[str, object]:
    """For programs."""
    return {
        "number": signed.number, "manifest_sha256": signed.manifest_sha256,
        "keys": list(signed.keys), "threshold": signed.threshold, "epoch": signed.epoch,
        "root_version": signed.root_version, "expires": signed.expires.isoformat(),
    }  # fmt: skip


def _read(path: Path, bytes_max: int) -> bytes:
    from shared.errors import Malformed

    try:
        with path.open("rb") as file:
            return file.read(bytes_max + 1)  # one more: too long is told from long
    except OSError as error:
        raise Malformed(f"{path}: cannot read it: {error.strerror}") from error
