"""Whether a broker lets strangers in without meaning to. Pure."""

import ipaddress

from shared.errors import Malformed


def check_exposed(host: str, *, is_guarded: bool) -> None:
    """Raise `Malformed` if other machines reach `host` and nothing asks them who they are.

    `is_guarded`: there are passwords or client certificates, or it was said that all may come in.
    """
    if not is_guarded and not is_loopback(host):
        raise Malformed(
            f"host {host} lets other machines in: give a password file or a CA for client "
            "certificates, or say that anonymous clients are allowed"
        )


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches that address; a name other than localhost may not."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
