"""The home's word for the end of its log: signed by the snapshot key of the root. Pure.

A DSSE envelope's signatures over a payload type of their own, so that no signature for a head can
pass for one over a snapshot, or the other way round.
"""

import json
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import UnverifiedSignatureError, VerificationError

from cloud.registry.documents import Head
from shared.config import in_words
from shared.errors import Malformed, NotTrusted
from shared.trust.chain import epoch_of
from shared.trust.plain_json import parse
from shared.trust.profile import Hex
from shared.trust.tuf_api import CryptoSigner, Root, Signature

_TYPE = "application/vnd.hybridge.log-head+json"
_BYTES_MAX = 4_000


class _Signed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    keyid: Hex
    sig: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]


class _Signatures(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    signatures: Annotated[list[_Signed], Field(min_length=1, max_length=16)]


def sign_head(head: Head, signers: Sequence[CryptoSigner]) -> str:
    """`signers`: the snapshot role's, as many as it needs. JSON text, about 270 bytes for one."""
    envelope = _envelope(head)
    for signer in signers:
        envelope.sign(signer)
    found = [{"keyid": one.keyid, "sig": one.signature} for one in envelope.signatures.values()]
    return json.dumps({"signatures": found}, separators=(",", ":"))


def verify_head(head: Head, signature: str, root: Root) -> None:
    """That the home under this root vouches for this head. Raises `NotTrusted`, `Malformed`.

    The head may be of a lower epoch: a home vouches for the whole of its log, and an old home has
    none of the root's keys. A higher epoch needs the root that says so first.
    """
    if head.epoch > (epoch := epoch_of(root)):
        raise NotTrusted(
            f"log head {head.seq}: of epoch {head.epoch}, the trusted root says {epoch}; fetch the "
            "newer root first"
        )
    if not is_signed(root, head, signature):
        raise NotTrusted(
            f"log head {head.seq}: not signed by the snapshot key of root {root.version}"
        )


def is_signed(root: Root, head: Head, signature: str) -> bool:
    """Whether enough of the root's snapshot keys signed this head; says nothing of its epoch."""
    envelope = _envelope(head)
    role = root.roles["snapshot"]
    try:
        for one in _parse(signature).signatures:
            envelope.signatures[one.keyid] = Signature(one.keyid, one.sig)
        envelope.verify([root.keys[keyid] for keyid in role.keyids], role.threshold)
    except (Malformed, VerificationError, UnverifiedSignatureError, ValueError):
        return False
    return True


def _parse(signature: str) -> _Signatures:
    if len(signature) > _BYTES_MAX:
        raise Malformed(f"log head: a signature of {len(signature)} characters")
    try:
        return _Signatures.model_validate(parse(signature.encode(errors="replace"), "log head"))
    except ValidationError as error:
        raise Malformed(f"log head: signature: {in_words(error)}") from error


def _envelope(head: Head) -> Envelope:
    payload = {"epoch": head.epoch, "seq": head.seq, "sha256": head.sha256}
    return Envelope(json.dumps(payload, sort_keys=True).encode(), _TYPE, {})
