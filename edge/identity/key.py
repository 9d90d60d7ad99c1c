"""A new key and the request for its certificate. It is made here and never leaves the device."""

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def new_key_and_request(device: str) -> tuple[bytes, str]:
    """An EC P-256 key in PEM (PKCS #8), and a request signed with it (PKCS #10, RFC 2986)."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, device)]))
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem, request.public_bytes(serialization.Encoding.PEM).decode()
