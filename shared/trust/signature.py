"""A bundle's signature beside it, `NAME.sig.json`: checked offline, with a root alone.

It is the part of the TUF metadata that leads from a root to this bundle's manifest: later roots,
the targets role that appoints the model's release keys, and the model's role that they signed.
Freshness it cannot show (no timestamp): whether a newer release is out, only a registry knows.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from shared.bundle.manifest import Name, Version
from shared.bundle.reader import Bundle
from shared.config import in_words
from shared.errors import Malformed, NotTrusted, TooLarge
from shared.trust import plain_json, profile
from shared.trust.chain import Chain, epoch_of, in_words_of_tuf
from shared.trust.names import (
    MODEL_BYTES_MAX,
    ROOT_BYTES_MAX,
    ROOTS_MAX,
    TARGETS_BYTES_MAX,
    model_role,
)
from shared.trust.tuf_api import Metadata, Targets
from shared.trust.walk import releases_of

SIGNATURE_BYTES_MAX = TARGETS_BYTES_MAX + MODEL_BYTES_MAX + 16 * ROOT_BYTES_MAX


@dataclass(frozen=True, slots=True)
class SignedBy:
    """Who vouches for a bundle, and until when."""

    model: str
    version: str
    number: int  # of the release
    manifest_sha256: str
    keys: tuple[str, ...]  # ids of the release keys that signed
    threshold: int  # how many had to
    root_version: int
    epoch: int
    expires: datetime  # UTC


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    kind: Literal["hybridge-bundle-signature"]
    format: Literal[1]
    model: Name
    version: Version
    roots: Annotated[list[JsonValue], Field(max_length=ROOTS_MAX)]
    targets: JsonValue
    role: JsonValue


def write_signature(
    model: str, version: str, roots: Sequence[bytes], targets: bytes, role: bytes
) -> bytes:
    """The file's bytes. `roots`: every root from the oldest that somebody may pin, in order;
    `targets` and `role`: the published metadata of the targets role and of the model's.

    Raises `Malformed`.
    """
    tree = {
        "kind": "hybridge-bundle-signature",
        "format": 1,
        "model": model,
        "version": version,
        "roots": [plain_json.parse(root, "root") for root in roots],
        "targets": plain_json.parse(targets, "targets"),
        "role": plain_json.parse(role, model_role(model)),
    }
    return _bytes(tree)


def check_signature(
    bundle: Bundle, signature_bytes: bytes, root_bytes: bytes, now: datetime
) -> SignedBy:
    """That the bundle is one that the keys appointed under this root released.

    `now`, with a zone: what has expired by then is refused; name an earlier moment for an archive.
    Raises `NotTrusted`, `Malformed` or `TooLarge`.
    """
    file = _parse(signature_bytes)
    name, version = bundle.manifest.name, bundle.manifest.version
    if (file.model, file.version) != (name, version):
        raise NotTrusted(
            f"{bundle.where}: is {name} {version}, the signature is for {file.model} "
            f"{file.version}; take the one that belongs to it"
        )
    chain = Chain(root_bytes)
    for root in file.roots:
        if _version_of(root) > chain.root.version:
            chain.add_root(_bytes(root))
    targets_bytes, role_bytes = _bytes(file.targets), _bytes(file.role)
    profile.check(targets_bytes, "targets", "signature: targets")
    profile.check(role_bytes, model_role(name), f"signature: {model_role(name)}")
    targets = Metadata[Targets].from_bytes(targets_bytes)
    role = Metadata[Targets].from_bytes(role_bytes)
    with in_words_of_tuf("signature: targets"):
        chain.root.verify_delegate("targets", targets.signed_bytes, targets.signatures)
    with in_words_of_tuf(f"signature: {model_role(name)}"):
        result = targets.signed.get_verification_result(
            model_role(name), role.signed_bytes, role.signatures
        )
    if not result:
        raise NotTrusted(
            f"signature: {model_role(name)}: signed by {len(result.signed)} of the "
            f"{result.threshold} release keys that it needs"
        )
    expires = min(chain.root.expires, targets.signed.expires, role.signed.expires)
    if now.astimezone(UTC) >= expires:
        raise NotTrusted(
            f"signature: expired on {expires:%Y-%m-%d %H:%M} UTC; fetch a newer one from the "
            "registry, or check as of the day that it was made"
        )
    for release in releases_of(role.signed, name):
        if release.version == version:
            release.check_manifest(bundle.manifest_bytes)
            return SignedBy(
                model=name,
                version=version,
                number=release.number,
                manifest_sha256=release.manifest_sha256,
                keys=tuple(sorted(result.signed)),
                threshold=result.threshold,
                root_version=chain.root.version,
                epoch=epoch_of(chain.root),
                expires=expires,
            )
    raise NotTrusted(
        f"signature: {model_role(name)} {role.signed.version} releases other versions, not {version}"
    )


def _parse(content: bytes) -> _File:
    if len(content) > SIGNATURE_BYTES_MAX:
        raise TooLarge(
            f"signature: {len(content)} bytes; a bundle's has at most {SIGNATURE_BYTES_MAX}"
        )
    tree = plain_json.parse(content, "signature")
    try:
        return _File.model_validate(tree)
    except ValidationError as error:
        raise Malformed(
            f"signature: {in_words(error)[:600]}; a `.sig.json` from `hybridge model get`?"
        ) from error


def _version_of(root: JsonValue) -> int:
    signed = root.get("signed") if isinstance(root, dict) else None
    version = signed.get("version") if isinstance(signed, dict) else None
    if not isinstance(version, int):
        raise Malformed("signature: roots: holds something that is no root")
    return version


def _bytes(tree: object) -> bytes:
    return json.dumps(tree, separators=(",", ":"), sort_keys=True).encode()
