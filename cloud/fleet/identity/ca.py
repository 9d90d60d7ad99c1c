"""The region's device CA: a key and a certificate in a folder, what they sign. Blocking.

    key.pem           the CA's key, EC P-256, mode 0600
    certificate.pem   what the broker and the API know devices by
    servers.pem       what devices know the broker and the API by, where that is another CA
    crl.pem           revoked certificates (RFC 5280, section 5), for the broker

Serials are random (160 bits, RFC 5280, section 4.1.2.2), so nobody counts on them to be in order.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cloud.fleet.documents import Certificate
from cloud.fleet.identity.csr import PublicKey, public_key
from cloud.fleet.identity.enrolment import device_name
from cloud.gateway.guarded_file import read_guarded
from shared.disk import write_whole
from shared.errors import Conflict, Malformed

KEY: Final = "key.pem"
CERTIFICATE: Final = "certificate.pem"
SERVERS: Final = "servers.pem"
CRL: Final = "crl.pem"
BACKDATED: Final = timedelta(hours=24)
"""A device whose clock is up to a day slow still finds its new certificate in force."""
BACKDATED_SHARE: Final = 0.1
"""But not by more than this share of its life."""
CA_LIFE: Final = timedelta(days=3650)
DAYS_MAX: Final = 3650.0
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """`serial` in hex; times in Unix seconds."""

    pem: str
    device: str
    serial: str
    not_before: float
    not_after: float
    issued_at: float

    def document(self) -> Certificate:
        return Certificate(
            serial=self.serial, not_before=self.not_before, not_after=self.not_after,
            issued_at=self.issued_at,
        )  # fmt: skip


class DeviceCa:
    """Safe on any thread: it holds values only."""

    def __init__(
        self, folder: Path, key: ec.EllipticCurvePrivateKey, own: x509.Certificate
    ) -> None:
        self.folder = folder
        self._key, self._own = key, own

    @classmethod
    def create(cls, folder: Path, region: str, now: float) -> Self:
        """Make a new CA, called after the region. Raises `Conflict` where there is one already, and
        `Unavailable` when it cannot be written.
        """
        if (folder / KEY).exists() or (folder / CERTIFICATE).exists():
            raise Conflict(f"{folder}: there is a CA already; devices know it, so it stays")
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{region} CA"[:64])])
        start = _at(now) - BACKDATED
        own = (
            _begun(key.public_key(), name, name, start, start + CA_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .sign(key, hashes.SHA256())
        )
        write_key(folder / KEY, key)
        write_whole(folder / CERTIFICATE, own.public_bytes(serialization.Encoding.PEM))
        return cls(folder, key, own)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Raises `Unknown`, `Malformed`, and `NotTrusted` where others may read the key."""
        key_text = read_guarded(folder / KEY)
        own_text = read_guarded(folder / CERTIFICATE, is_secret=False)
        try:
            key = serialization.load_pem_private_key(key_text.encode(), None)
            own = x509.load_pem_x509_certificate(own_text.encode())
        except (ValueError, TypeError) as error:
            raise Malformed(f"{folder}: {KEY} or {CERTIFICATE} is no PEM: {error}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != own.public_key():
            raise Malformed(f"{folder}: {KEY} and {CERTIFICATE} do not belong together")
        return cls(folder, key, own)

    @property
    def certificate_pem(self) -> str:
        """What servers check devices by."""
        return self._own.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def servers_pem(self) -> str:
        """What devices check servers by: `servers.pem`, or else this CA. Reads a file."""
        path = self.folder / SERVERS
        return read_guarded(path, is_secret=False) if path.exists() else self.certificate_pem

    def issue(
        self, csr_pem: str | bytes, device: str, now: float, days: float
    ) -> IssuedCertificate:
        """Sign a device's key for `days` from now, whatever else its request asks for.

        Raises as `csr.public_key`, and `Malformed` for a name that no device may have.
        """
        if not 0 < days <= DAYS_MAX:
            raise Malformed(
                f"days: {days:g} is no life for a certificate; take up to {DAYS_MAX:.0f}"
            )
        name, key = device_name(device), public_key(csr_pem)
        life = timedelta(days=days)
        start = _at(now) - min(BACKDATED, BACKDATED_SHARE * life)
        end = min(_at(now) + life, self._own.not_valid_after_utc)
        signed = self._leaf(name, key, start, end, ExtendedKeyUsageOID.CLIENT_AUTH).sign(
            self._key, hashes.SHA256()
        )
        return _issued(signed, name, now)

    def issue_service(
        self,
        key: PublicKey,
        name: str,
        now: float,
        days: float,
        hosts: tuple[x509.GeneralName, ...],
    ) -> IssuedCertificate:
        """For this region's own processes: a server with `hosts`, a client of the broker without."""
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        end = min(_at(now) + timedelta(days=days), self._own.not_valid_after_utc)
        builder = self._leaf(name, key, _at(now) - BACKDATED, end, purpose)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        return _issued(builder.sign(self._key, hashes.SHA256()), name, now)

    def crl(self, revoked: Mapping[str, float], now: float, days: float = 30.0) -> str:
        """The list as PEM, for `days`: serials in hex, and when each was revoked (Unix seconds)."""
        number = int(now * 1000)  # rises (RFC 5280, section 5.2.3)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._own.subject)
            .last_update(_at(now) - BACKDATED)
            .next_update(_at(now) + timedelta(days=days))
            .add_extension(x509.CRLNumber(number), critical=False)
            .add_extension(self._authority(), critical=False)
        )
        for serial, when in sorted(revoked.items()):
            entry = x509.RevokedCertificateBuilder(int(serial, 16), max(_EPOCH, _at(when)))
            builder = builder.add_revoked_certificate(entry.build())
        signed = builder.sign(self._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM).decode()

    def _leaf(
        self,
        name: str,
        key: PublicKey,
        start: datetime,
        end: datetime,
        purpose: x509.ObjectIdentifier,
    ) -> x509.CertificateBuilder:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return (
            _begun(key, subject, self._own.subject, start, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(self._authority(), critical=False)
        )

    def _authority(self) -> x509.AuthorityKeyIdentifier:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """A private key as PEM, mode 0600 from its first byte on. Raises `Unavailable`."""
    content = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_whole(path, content, private=True)


def _begun(
    key: PublicKey, subject: x509.Name, issuer: x509.Name, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(secrets.randbits(158) | 1 << 158)  # positive, in 20 octets, never short
        .not_valid_before(max(start, _EPOCH))
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    """Of a leaf, whose key signs handshakes; or of a CA, whose key signs certificates and lists."""
    return x509.KeyUsage(
        digital_signature=signs, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=not signs,
        crl_sign=not signs, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _issued(signed: x509.Certificate, name: str, now: float) -> IssuedCertificate:
    return IssuedCertificate(
        signed.public_bytes(serialization.Encoding.PEM).decode(), name,
        f"{signed.serial_number:x}", signed.not_valid_before_utc.timestamp(),
        signed.not_valid_after_utc.timestamp(), now,
    )  # fmt: skip


def _at(now: float) -> datetime:
    return datetime.fromtimestamp(int(now), UTC)
