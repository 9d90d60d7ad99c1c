"""What vouches for callers: the key file, the issuer's keys, the revoked tokens."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from cloud.gateway.counts import GatewayCounts
from cloud.gateway.guarded_file import read_guarded
from cloud.gateway.issuer import IssuerFile, IssuerUrl
from cloud.gateway.jwks import KeySet
from cloud.gateway.key_file import KeyLine, parse
from cloud.gateway.settings import GatewaySettings, TokenSettings
from shared.errors import HybridgeError, TooLarge

log = logging.getLogger(__name__)

T = TypeVar("T")
REVOKED_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class Change:
    """What was read again; None where it was not, or has a mistake."""

    keys: Mapping[str, KeyLine] | None
    issuer_keys: KeySet | None
    revoked: frozenset[str] | None


class Trusted:
    """Read once here; raises for a file that is not there or has a mistake."""

    def __init__(
        self, settings: GatewaySettings, counts: GatewayCounts, on_change: Callable[[], None]
    ) -> None:
        self._counts, self._on_change = counts, on_change
        self._key_file = settings.key_file
        self._revoked_file = None if settings.tokens is None else settings.tokens.revoked_file
        self.keys: Mapping[str, KeyLine] = (
            {} if self._key_file is None else read_keys(self._key_file)
        )
        self.revoked: frozenset[str] = (
            frozenset() if self._revoked_file is None else read_revoked(self._revoked_file)
        )
        self.issuer = None if settings.tokens is None else self._issuer(settings.tokens)
        self._tell()

    @property
    def is_nobody(self) -> bool:
        """There are neither keys nor tokens to have."""
        return self._key_file is None and self.issuer is None

    def read(self) -> Change:
        """Read every file again, each for itself. Slow for big ones; touches nothing that is here."""
        key_file, revoked_file = self._key_file, self._revoked_file
        file = self.issuer if isinstance(self.issuer, IssuerFile) else None
        return Change(
            None if key_file is None else self._attempt("keys", lambda: read_keys(key_file)),
            None if file is None else self._attempt("issuer_keys", file.read),
            None if revoked_file is None
            else self._attempt("revoked", lambda: read_revoked(revoked_file)),
        )  # fmt: skip

    def become(self, change: Change) -> None:
        """Trust what was read from now on."""
        if change.keys is not None:
            self.keys = change.keys
        if change.revoked is not None:
            self.revoked = change.revoked
        if change.issuer_keys is not None and isinstance(self.issuer, IssuerFile):
            self.issuer.current = change.issuer_keys
        self._on_change()
        self._tell()
        log.info("gateway_read_again", extra={"keys": len(self.keys), "revoked": len(self.revoked)})

    def _issuer(self, tokens: TokenSettings) -> IssuerFile | IssuerUrl:
        if tokens.keys_url is None:
            assert tokens.keys_file is not None, "the settings ask for one of both"
            return IssuerFile(tokens.keys_file)
        return IssuerUrl(
            tokens.keys_url, tokens.refreshing, tokens.fetch_timeout_s, self._counts,
            self._on_change,
        )  # fmt: skip

    def _attempt(self, what: str, read: Callable[[], T]) -> T | None:
        try:
            found = read()
        except HybridgeError as error:
            self._counts.read[what, False].inc()
            log.error("gateway_file_kept", extra={"what": what, "why": str(error)})  # noqa: TRY400  words suffice
            return None
        self._counts.read[what, True].inc()
        return found

    def _tell(self) -> None:
        self._counts.keys.set(len(self.keys))
        if isinstance(self.issuer, IssuerFile):
            self._counts.issuer_keys.set(len(self.issuer.current.raw))


def read_keys(path: Path) -> Mapping[str, KeyLine]:
    """Read a key file; raises as `read_guarded` and `parse` do."""
    return parse(read_guarded(path), str(path))


def read_revoked(path: Path) -> frozenset[str]:
    """Read the `jti` of tokens that are not taken any more, one a line; `#` begins a comment.

    Raises as `read_guarded` does, and `TooLarge` over 100,000.
    """
    lines = (line.strip() for line in read_guarded(path, is_secret=False).splitlines())
    found = frozenset(line for line in lines if line and not line.startswith("#"))
    if len(found) > REVOKED_MAX:
        raise TooLarge(
            f"{path}: {len(found):,} tokens; {REVOKED_MAX:,} may be. Delete those that have expired"
        )
    return found
