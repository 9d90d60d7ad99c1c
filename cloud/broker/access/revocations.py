"""Client certificates that are no longer good: a list as the CA signs it (RFC 5280, section 5). Pure.

Judged with the CONNECT and not in the handshake, so that a list is read anew with the other files,
ends sessions that are open, and its client hears why (0x87). A list that is older than it says is
used all the same: shutting the whole fleet out because the list's writer is away protects nobody.
Mosquitto, which leaves this to OpenSSL, shuts everybody out then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from cryptography import x509

from shared.errors import Malformed, NotTrusted

_BEGIN = "-----BEGIN X509 CRL-----"
_END = "-----END X509 CRL-----"


@dataclass(frozen=True, slots=True)
class CertificateId:
    """What no two certificates share."""

    issuer: bytes
    serial: int

    @classmethod
    def of(cls, der: bytes) -> "CertificateId | None":
        """None for what does not parse, though TLS took it."""
        try:
            found = x509.load_der_x509_certificate(der)
            return cls(found.issuer.public_bytes(), found.serial_number)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Revocations:
    """All lists of one file."""

    revoked: frozenset[CertificateId]
    next_update: datetime | None
    """When the first of them should have been replaced; None: no list says."""

    @classmethod
    def parse(cls, text: str, where: str, authorities: str) -> Self:
        """Read the lists of a file; `authorities` are the CAs' certificates, PEM.

        Raises:
            Malformed: there is no list in it, or one does not parse.
            NotTrusted: a list is signed by none of the authorities.

        """
        blocks = [part.partition(_END)[0] for part in text.split(_BEGIN)[1:]]
        if not blocks:
            raise Malformed(f"{where}: holds no revocation list; want '{_BEGIN}'")
        try:
            lists = [x509.load_pem_x509_crl(f"{_BEGIN}{b}{_END}\n".encode()) for b in blocks]
            known = x509.load_pem_x509_certificates(authorities.encode())
            revoked = frozenset(
                CertificateId(one.issuer.public_bytes(), entry.serial_number)
                for one in lists
                for entry in one
            )
        except ValueError as error:
            raise Malformed(f"{where}: a revocation list does not parse: {error}") from error
        for one in lists:
            if not _is_signed(one, known):
                raise NotTrusted(
                    f"{where}: a revocation list of {one.issuer.rfc4514_string()[:100]} is signed "
                    "by none of the CAs that vouch for clients"
                )
        ends = [one.next_update_utc for one in lists if one.next_update_utc is not None]
        return cls(revoked, min(ends, default=None))

    def allows(self, certificate: CertificateId | None) -> bool:
        """None, one that could not be read, is not allowed."""
        return certificate is not None and certificate not in self.revoked


def _is_signed(one: x509.CertificateRevocationList, known: Sequence[x509.Certificate]) -> bool:
    for authority in known:
        if authority.subject == one.issuer:
            try:
                if one.is_signature_valid(authority.public_key()):  # type: ignore[arg-type]  # TypeError for keys that sign nothing
                    return True
            except (TypeError, ValueError):
                continue
    return False
