"""TLS towards the region, also with a clock that is known to be slow. Blocking.

A device without a battery for its clock starts in 1970, where every server's certificate is still
to come. It knows one thing: it is later than the beginning of its own certificate. So then TLS does
not look at the time, and the server's certificate must end after that moment. What this gives away:
a server's key that was stolen before its certificate ended, after the device's own began.
"""

import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from edge.identity.files import IdentityFiles
from shared.errors import Malformed

_NO_CHECK_TIME: Final = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME, `openssl/x509_vfy.h`; the ssl module has no name for it."""


def client_context(
    ca: Path | None, own: IdentityFiles | None, *, later_than: float | None = None
) -> ssl.SSLContext:
    """`ca` None: the system's authorities. `later_than`: the clock is slow, but it is later than
    that (Unix seconds).

    Raises `Malformed` for files that cannot be read or do not belong together.
    """
    try:
        found = ssl.create_default_context(cafile=ca)
        if own is not None:
            found.load_cert_chain(own.certificate, own.key)
    except OSError as error:  # ssl.SSLError is one
        where = f"{ca}, {own and own.certificate}"
        raise Malformed(f"TLS files ({where}): {error}; name PEM files") from error
    if later_than is not None:
        found.verify_flags = ssl.VerifyFlags(found.verify_flags | _NO_CHECK_TIME)
        found.sslobject_class = _ending_after(later_than)
    return found


def _ending_after(moment: float) -> type[ssl.SSLObject]:
    class Dated(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            shown = self.getpeercert()
            end = ssl.cert_time_to_seconds(str(shown["notAfter"])) if shown else 0.0
            if end <= moment:
                said = datetime.fromtimestamp(end, UTC).isoformat()
                raise ssl.SSLCertVerificationError(f"the server's certificate ended at {said}")

    return Dated
