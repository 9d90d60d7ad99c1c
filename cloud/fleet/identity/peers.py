"""The certificate that the other end of a TLS connection showed. Pure.

TLS has checked that the device CA signed it and that the other end has its key. Its time is judged
here, by the region's clock (`cloud/fleet/api/tls.py` says why), and whether it was revoked.
"""

from dataclasses import dataclass

from cryptography import x509
from cryptography.x509.oid import NameOID

from cloud.fleet.identity.enrolment import device_name
from shared.errors import Malformed, NotTrusted
from shared.ids import DeviceId


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """Times are Unix seconds."""

    device: DeviceId
    serial: str
    """In hex, as `cloud.fleet.documents.Certificate` has it."""
    not_before: float
    not_after: float


def peer(der: bytes) -> PeerCertificate:
    """Of `getpeercert(binary_form=True)`. Raises `NotTrusted` where it names no device."""
    try:
        found = x509.load_der_x509_certificate(der)
        (name,) = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        device = device_name(str(name.value))
    except (ValueError, Malformed) as error:
        raise NotTrusted(f"the client certificate names no device: {str(error)[:200]}") from error
    return PeerCertificate(
        device, f"{found.serial_number:x}",
        found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp(),
    )  # fmt: skip
