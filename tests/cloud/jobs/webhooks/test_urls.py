"""Which URLs may be named: a table of tricks, and that what passes leads where it says."""

import contextlib
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.jobs.settings import WebhookSettings
from cloud.jobs.webhooks.addresses import parse, why_refused
from cloud.jobs.webhooks.urls import AddressRefused, target
from shared.errors import HybridgeError, Malformed

RULES = WebhookSettings()
OPEN = WebhookSettings(allow_http=True, ports=(443, 80, 8080, 8443))

GOOD = [
    ("https://hooks.example/path?x=1", "hooks.example", 443),
    ("https://Hooks.Example/", "hooks.example", 443),
    ("https://a_b.example:443/", "a_b.example", 443),
    ("https://xn--bcher-kva.example/", "xn--bcher-kva.example", 443),
    ("https://1.1.1.1/", "1.1.1.1", 443),
    ("https://[2606:4700::1111]/", "2606:4700::1111", 443),
    ("https://hooks.example/user@x/%40", "hooks.example", 443),
    ("https://localhost/", "localhost", 443),  # a name like others: its addresses are what counts
]
MALFORMED = [
    "", "hooks.example", "//hooks.example/", "https:hooks.example", "https:/hooks.example",
    "https:///hooks.example", "https://", "https://:443/", "https://?x", "http://hooks.example/",
    "ftp://hooks.example/", "file:///etc/passwd", "gopher://127.0.0.1:6379/", "javascript:alert(1)",
    "https://user@hooks.example/", "https://user:pass@hooks.example/", "https://@127.0.0.1/",
    "https://hooks.example@127.0.0.1/", "https://127.0.0.1#@hooks.example/", "https://:@a.example/",
    "https://hooks.example/#fragment", "https://hooks.example:22/", "https://hooks.example:0/",
    "https://hooks.example:80/", "https://hooks.example:8443/", "https://hooks.example:x/",
    "https://hooks.example:99999/", "https://hooks.example:-1/",
    "https://hooks.example\\@127.0.0.1/", "https:\\\\127.0.0.1/", "https://a.example/a\\b",
    "https://hooks.example /",
    " https://hooks.example/", "https://hooks.example/\n", "https://hooks.example/\r\nX: y",
    "https://hooks.exa\tmple/", "https://hooks.example/\0",
    "https://bücher.example/", "https://ⓛocalhost/", "https://\uff11\uff12\uff17.0.0.1/", "https://127。0。0。1/",
    "https://2130706433/", "https://0x7f000001/", "https://0x7f.0.0.1/", "https://0177.0.0.1/",
    "https://017700000001/", "https://127.1/", "https://127.0.1/", "https://0/", "https://0x/",
    "https://127.0.0.1./", "https://localhost./", "https://hooks.example./", "https://1.2.3.4.5/",
    "https://256.1.1.1/", "https://1.1.1.01/", "https://a.0x1/", "https://a.1/",
    "https://[::1%25lo]/", "https://[fe80::1%25eth0]/", "https://[::1", "https://::1/",
    "https://[127.0.0.1]/", "https://[::ffff:127.0.0.1.]/",
    "https://-a.example/", "https://a..example/", "https://.example/", "https://%31%32%37.0.0.1/",
    "https://a%00.example/", "https://" + "a" * 64 + ".example/", "https://" + "a." * 127 + "example/",
    "https://hooks.example/" + "x" * 2048,
]  # fmt: skip
NOT_PUBLIC = [
    "https://127.0.0.1/", "https://10.1.2.3/", "https://169.254.169.254/latest/meta-data/",
    "https://0.0.0.0/", "https://[::1]/", "https://[::]/", "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/", "https://[0:0:0:0:0:ffff:7f00:0001]/", "https://[fe80::1]/",
    "https://[fd00:ec2::254]/", "https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/",
    "https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/", "https://[::127.0.0.1]/",
    "https://224.0.0.1/", "https://255.255.255.255/", "https://168.63.129.16/",
]  # fmt: skip


@pytest.mark.parametrize(("text", "host", "port"), GOOD)
def test_what_may_be_named(text: str, host: str, port: int) -> None:
    found = target(text, RULES)
    assert (found.host, found.port) == (host, port)


@pytest.mark.parametrize("text", MALFORMED)
def test_what_is_no_url_or_may_not_be_one(text: str) -> None:
    with pytest.raises(Malformed, match="webhook: "):
        target(text, RULES)


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_an_address_that_is_not_public(text: str) -> None:
    with pytest.raises(AddressRefused, match="webhook: "):
        target(text, RULES)


def test_what_the_settings_open_is_open() -> None:
    for text in ("http://hooks.example/", "http://a.example:8080/", "https://a.example:8443/"):
        target(text, OPEN)
    private = WebhookSettings.model_validate({"allow_private": ["10.1.0.0/16"]})
    target("https://10.1.2.3/", private)
    with pytest.raises(AddressRefused):
        target("https://10.2.2.3/", private)


HOSTS = st.one_of(
    st.sampled_from([text.split("/")[2] for text in MALFORMED + NOT_PUBLIC if text.count("/") > 2]),
    st.ip_addresses().map(lambda ip: f"[{ip}]" if ip.version == 6 else str(ip)),
    st.lists(
        st.one_of(st.integers(0, 2**32).map(str), st.integers(0, 2**32).map(hex),
                  st.integers(0, 2**32).map(lambda n: f"0{n:o}"), st.text("a1x.-_", max_size=5)),
        min_size=1, max_size=5,
    ).map(".".join),
    st.text(max_size=30),
)  # fmt: skip


@settings(deadline=None)  # a busy machine is no failure
@given(
    st.sampled_from(["https://", "http://", "https:", "https:\\\\"]), HOSTS,
    st.sampled_from(["", "/", ":443/", ":80/", "#", "?", "@1.1.1.1/", "\\@1.1.1.1/", "./"]),
)  # fmt: skip
def test_whatever_passes_is_a_name_or_a_public_address(scheme: str, host: str, rest: str) -> None:
    """The system's own reading of the host, not ours, says whether it is an address."""
    try:
        found = target(scheme + host + rest, OPEN)
    except HybridgeError:
        return
    assert found.url.raw_host == found.host
    try:
        read = socket.getaddrinfo(found.host, None, flags=socket.AI_NUMERICHOST)
    except OSError:
        assert not found.is_address
        return
    assert found.is_address
    for *_, sockaddr in read:
        assert why_refused(parse(str(sockaddr[0])), ()) is None


@settings(deadline=None)  # a busy machine is no failure
@given(st.text(max_size=3000))
def test_any_text_is_refused_in_words_or_passes(text: str) -> None:
    with contextlib.suppress(HybridgeError):
        target(text, OPEN)
