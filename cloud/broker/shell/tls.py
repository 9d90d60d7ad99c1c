"""TLS of the listeners, and who a client's certificate names."""

import ssl
from collections.abc import Mapping
from pathlib import Path

from cloud.broker.access.revocations import CertificateId
from shared.errors import Malformed


def tls_context(cert: Path | None, key: Path | None, ca: Path | None) -> ssl.SSLContext | None:
    """Make a server context, with client certificates required if `ca` is given.

    Raises:
        Malformed: a file is missing, does not parse, or only some of them are named.

    """
    if cert is not None and key is None:
        raise Malformed("--tls-cert needs --tls-key, its private key")
    for option, path in (("--tls-cert", cert), ("--tls-key", key), ("--tls-ca", ca)):
        if path is not None and not path.is_file():
            raise Malformed(f"{option} {path}: no such file")
    if cert is None:
        if key is not None or ca is not None:
            raise Malformed("--tls-key and --tls-ca need --tls-cert")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key)
        if ca is not None:
            context.load_verify_locations(ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:  # ssl.SSLError is one
        raise Malformed(f"--tls-cert {cert}, --tls-key {key}, --tls-ca {ca}: {error}") from error
    return context


def certificate_id(connection: object) -> CertificateId | None:
    """Which certificate a client showed; `connection` is the transport's `ssl_object`, if any."""
    if not isinstance(connection, ssl.SSLObject | ssl.SSLSocket):
        return None
    der = connection.getpeercert(binary_form=True)
    return None if der is None else CertificateId.of(der)


def common_name(certificate: object) -> str | None:
    """Give a verified client certificate's common name; None without one, "" if it has none.

    `certificate` is what `ssl.SSLSocket.getpeercert` gives. Of several names none counts.
    """
    if not isinstance(certificate, Mapping) or not certificate:
        return None
    names = [
        value
        for part in certificate.get("subject", ())
        for key, value in part
        if key == "commonName"
    ]
    return names[0] if len(names) == 1 else ""
