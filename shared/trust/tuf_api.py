"""The names of python-tuf and securesystemslib that we use, from one place.

`TrustedMetadataSet`, the client's bytes-in decision core, is not of tuf's public interface;
`requirements.lock` holds the version that the tests here passed with.
"""

from typing import Any

from securesystemslib.signer import (  # type: ignore[attr-defined]  # as below
    CryptoSigner,
    Key,
    Signature,
    SSlibKey,
)
from tuf.api.metadata import (  # type: ignore[attr-defined]  # re-exports, unmarked
    DelegatedRole,
    Delegations,
    Metadata,
    MetaFile,
    Role,
    Root,
    Signed,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
    VerificationResult,
)
from tuf.ngclient._internal.trusted_metadata_set import TrustedMetadataSet
from tuf.ngclient.config import EnvelopeType

AnyMetadata = Metadata[Any]
"""Of whichever role was asked for."""

__all__ = [
    "AnyMetadata",
    "CryptoSigner",
    "DelegatedRole",
    "Delegations",
    "EnvelopeType",
    "Key",
    "MetaFile",
    "Metadata",
    "Role",
    "Root",
    "SSlibKey",
    "Signature",
    "Signed",
    "Snapshot",
    "TargetFile",
    "Targets",
    "Timestamp",
    "TrustedMetadataSet",
    "VerificationResult",
]
