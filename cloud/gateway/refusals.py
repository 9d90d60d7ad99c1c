"""Why a caller is turned away. Pure."""

from enum import StrEnum
from typing import Literal

from shared.errors import NotTrusted, Overloaded


class Reason(StrEnum):
    """Of a refused credential, as it is counted and logged; callers are told less."""

    NO_CREDENTIALS = "no_credentials"
    TWO_CREDENTIALS = "two_credentials"
    WRONG_SCHEME = "wrong_scheme"
    TOO_LONG = "too_long"
    UNREADABLE = "unreadable"
    MISTYPED_KEY = "mistyped_key"
    UNKNOWN_KEY = "unknown_key"
    FORGED_KEY = "forged_key"
    EXPIRED_KEY = "expired_key"
    NO_TOKENS_HERE = "no_tokens_here"
    WRONG_ALGORITHM = "wrong_algorithm"
    UNKNOWN_SIGNER = "unknown_signer"
    FORGED_TOKEN = "forged_token"  # noqa: S105  a label
    EXPIRED_TOKEN = "expired_token"  # noqa: S105  a label
    EARLY_TOKEN = "early_token"  # noqa: S105  a label
    REVOKED_TOKEN = "revoked_token"  # noqa: S105  a label
    WRONG_ISSUER = "wrong_issuer"
    WRONG_AUDIENCE = "wrong_audience"
    BAD_CLAIMS = "bad_claims"


class Untrusted(NotTrusted):
    """A credential that does not check out. Its message holds nothing of the credential."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RateLimited(Overloaded):
    """A caller has had what he may have for now; `retry_after_s` is None where nobody knows."""

    def __init__(
        self,
        kind: Literal["rate", "in_hand", "failures"],
        message: str,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, retry_after_s)
        self.kind = kind
