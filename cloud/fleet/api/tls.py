"""TLS of the fleet's API: the server's certificate, and clients' where they have one.

A client certificate's time is not checked by TLS but by `identity.peers` and `identity.renewal`: a
device that was away for long shows an expired one to renew it, and a handshake that fails could
never say so. Everything else about it is TLS's: who signed it, and that the client has its key.
So whoever needs to know which device asks calls `shown` and then one of those two, never the
connection's `peercert` alone.
"""

import ssl
from pathlib import Path
from typing import Final, Protocol

from cloud.fleet.identity.peers import PeerCertificate, peer
from shared.errors import Malformed

_NO_CHECK_TIME: Final = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME, `openssl/x509_vfy.h`; the ssl module has no name for it."""


class Connection(Protocol):
    """An `asyncio.Transport`, or an `aiohttp.web.Request`."""

    def get_extra_info(self, name: str, default: object = None) -> object: ...


def server_context(cert: Path, key: Path, devices_ca: Path | None) -> ssl.SSLContext:
    """`devices_ca`: the device CA's certificate, PEM; with it clients may show one. Blocking.

    Raises `Malformed` for files that cannot be read or do not belong together.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key)
        if devices_ca is not None:
            context.load_verify_locations(devices_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
            context.verify_flags = ssl.VerifyFlags(context.verify_flags | _NO_CHECK_TIME)
    except OSError as error:  # ssl.SSLError is one
        raise Malformed(f"TLS files ({cert}, {key}, {devices_ca}): {error}") from error
    return context


def shown(connection: Connection) -> PeerCertificate | None:
    """The client's certificate, signed by the device CA; None where it showed none.

    Its time and whether it was revoked are still to be judged. Raises `NotTrusted`.
    """
    tls = connection.get_extra_info("ssl_object")
    if not isinstance(tls, ssl.SSLObject | ssl.SSLSocket):
        return None
    der = tls.getpeercert(binary_form=True)
    return None if der is None else peer(der)
