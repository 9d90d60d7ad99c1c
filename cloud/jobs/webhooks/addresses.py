"""Which addresses a stranger may have this server connect to. Pure.

Public unicast ones, judged by what they stand for: an IPv4 address can hide in an IPv6 one
(RFC 4291, 6052, 3056, 4380). Python's `is_global` follows IANA's special-purpose registries, but
counts multicast, and versions differ; the tables below do not.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_UNICAST6 = IPv6Network("2000::/3")  # all that IANA has given out
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052: how an IPv6-only host reaches IPv4
_REFUSED: tuple[tuple[Network, str], ...] = (
    (IPv6Network("2002::/16"), "6to4, which leads to any IPv4 address"),
    (IPv6Network("2001::/32"), "Teredo, which leads to any IPv4 address"),
    (IPv6Network("2001:10::/28"), "ORCHID, no address of a machine"),
    (IPv6Network("2001:20::/28"), "ORCHID, no address of a machine"),
    (IPv6Network("2001:db8::/32"), "for documentation"),
    (IPv6Network("3fff::/20"), "for documentation"),
    (IPv4Network("192.0.0.0/24"), "for protocols' own use, a cloud's metadata among them"),
    (IPv4Network("192.88.99.0/24"), "6to4's relays"),
    (IPv4Network("168.63.129.16/32"), "a cloud's control service"),
)


def parse(text: str) -> Address:
    """A canonical address, no zone. Raises `ValueError`."""
    if "%" in text:
        raise ValueError(f"{text!r} names an interface of this machine")
    return ip_address(text)


def why_refused(address: Address, allowed: Sequence[Network]) -> str | None:
    """In words why this address may not be reached; None: it may. `allowed`: may, whatever it is."""
    stands_for = _unwrapped(address)
    if any(stands_for.version == n.version and stands_for in n for n in allowed):
        return None
    for network, what in _REFUSED:
        if stands_for.version == network.version and stands_for in network:
            return what
    if isinstance(stands_for, IPv6Address):
        if stands_for not in _UNICAST6:
            return "not public"
        if (stands_for.packed[8:12]) in {b"\0\0\x5e\xfe", b"\x02\0\x5e\xfe"}:
            return "ISATAP, which leads to any IPv4 address"
    if stands_for.is_multicast or stands_for.is_reserved or not stands_for.is_global:
        return "not public"
    return None


def _unwrapped(address: Address) -> Address:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(address.packed[12:])
    return address
