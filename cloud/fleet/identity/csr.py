"""What a device sends for signing: PKCS #10 (RFC 2986), of which only the key is taken. Pure.

The name in the request counts for nothing: a certificate says who its token or present certificate
says. The request's own signature shows that whoever asks has the private key.
"""

from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from shared.errors import Malformed, NotTrusted, TooLarge

BYTES_MAX: Final = 8 * 1024
"""A request with a P-256 key has 500 bytes, one with RSA 4096 has 1,700."""
RSA_BITS_MIN: Final = 2048
RSA_BITS_MAX: Final = 4096
"""A larger one takes milliseconds for each handshake, of every connection."""

PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey
_RULE: Final = "use an EC key on P-256 or P-384, Ed25519, or RSA of 2048 to 4096 bits"


def public_key(csr_pem: str | bytes) -> PublicKey:
    """The key that the request proves to have.

    Raises:
        TooLarge: it is over 8 KiB.
        Malformed: it is no request in PEM, or its key is of a kind that is not signed here.
        NotTrusted: its signature does not fit its key.

    """
    content = csr_pem.encode() if isinstance(csr_pem, str) else csr_pem
    if len(content) > BYTES_MAX:
        raise TooLarge(f"csr: {len(content)} bytes; at most {BYTES_MAX} are read")
    try:
        request = x509.load_pem_x509_csr(content)
        key = request.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Malformed(f"csr: is no certificate request in PEM: {str(error)[:200]}") from error
    checked = _checked(key)
    try:
        is_signed = request.is_signature_valid
    except (ValueError, UnsupportedAlgorithm, InvalidSignature):
        is_signed = False
    if not is_signed:
        raise NotTrusted("csr: its signature is not by its own key; make the request anew")
    return checked


def _checked(key: object) -> PublicKey:
    match key:
        case ec.EllipticCurvePublicKey():
            if not isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1):
                raise Malformed(f"csr: curve {key.curve.name} is not taken; {_RULE}")
            return key
        case rsa.RSAPublicKey():
            if not RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
                raise Malformed(f"csr: RSA of {key.key_size} bits is not taken; {_RULE}")
            if key.public_numbers().e < 65_537:
                raise Malformed(f"csr: an RSA exponent under 65537 is not taken; {_RULE}")
            return key
        case ed25519.Ed25519PublicKey():
            return key
        case _:
            raise Malformed(f"csr: keys of type {type(key).__name__} are not taken; {_RULE}")
