"""Which addresses may be reached: a table of those that guards forget, and properties."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.jobs.webhooks.addresses import parse, why_refused

PUBLIC = [
    "1.1.1.1", "93.184.215.14", "203.0.114.1", "100.128.0.1", "172.32.0.1", "192.167.255.255",
    "2606:4700::1111", "2a00:1450:4001::200e", "::ffff:1.1.1.1", "64:ff9b::101:101",
]  # fmt: skip
NOT_PUBLIC = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.0.9",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1",
    "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16",
    "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "ff0e::1",
    "100::1", "2001:db8::1", "3fff::1", "5f00::1", "4000::1", "2001:10::1", "2001:20::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "64:ff9b:1::101:101",
    "2002:7f00:1::", "2002:101:101::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2606:4700::5efe:7f00:1", "2606:4700::200:5efe:7f00:1",
]  # fmt: skip
V4 = st.integers(0, 2**32 - 1).map(IPv4Address)
V6 = st.one_of(
    st.integers(0, 2**128 - 1),
    st.integers(0, 2**32 - 1).map(lambda low: 0xFFFF << 32 | low),
    st.integers(0, 2**32 - 1).map(lambda low: 0x64FF9B << 96 | low),
    st.integers(0, 2**112 - 1).map(lambda low: 0x2002 << 112 | low),
    st.integers(0, 2**96 - 1).map(lambda low: 0x20010000 << 96 | low),
    st.integers(0, 2**125 - 1).map(lambda low: 1 << 125 | low),
).map(IPv6Address)


@pytest.mark.parametrize("text", PUBLIC)
def test_public_ones_may_be_reached(text: str) -> None:
    assert why_refused(parse(text), ()) is None


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_others_may_not(text: str) -> None:
    assert why_refused(parse(text), ())


@pytest.mark.parametrize(
    "text", ["fe80::1%eth0", "127.1", "0x7f000001", "2130706433", "0177.0.0.1", ""]
)
def test_what_is_no_canonical_address_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_what_an_operator_allows_may_be_reached_and_nothing_beside_it() -> None:
    allowed = (ip_network("10.1.0.0/16"), ip_network("fd00:1::/32"))
    for text in ("10.1.2.3", "::ffff:10.1.2.3", "fd00:1::5"):
        assert why_refused(parse(text), allowed) is None
    for text in ("10.2.0.1", "127.0.0.1", "fd00:2::5", "2002:0a01:0203::"):
        assert why_refused(parse(text), allowed)


@settings(deadline=None)  # a busy machine is no failure
@given(st.one_of(V4, V6))
def test_never_one_that_is_not_global_or_stands_for_one(address: IPv4Address | IPv6Address) -> None:
    if why_refused(address, ()) is not None:
        return
    if isinstance(address, IPv6Address):
        inside = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in ip_network("64:ff9b::/96"):
            inside.append(ip_address(address.packed[12:]))
        hidden = [one for one in inside if one is not None]
        if hidden:
            assert all(one.is_global and not one.is_multicast for one in hidden)
            return
    assert address.is_global
    never = (
        address.is_multicast, address.is_reserved, address.is_loopback, address.is_private,
        address.is_link_local, address.is_unspecified,
    )  # fmt: skip
    assert not any(never)
