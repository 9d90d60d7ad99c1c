"""Which URLs a caller may name as a webhook, before any name is looked up. Pure.

Parsers that disagree are how guards are passed, so what is unusual is refused, and the parsed URL
itself, never its text, is what the client is given.
"""

import re
from dataclasses import dataclass

from yarl import URL

from cloud.api.call import WEBHOOK_CHARACTERS_MAX
from cloud.jobs.settings import WebhookSettings
from cloud.jobs.webhooks.addresses import parse, why_refused
from shared.errors import Malformed, Refused

_TEXT = re.compile(r"[\x21-\x7e]+")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # WHATWG URL: a host that ends in one is IPv4


@dataclass(frozen=True, slots=True)
class Target:
    """`is_address`: the host is an IP address, and was checked."""

    url: URL
    host: str
    port: int
    is_address: bool


class AddressRefused(Refused):
    """The address that a webhook leads to may not be reached from here."""


def target(text: str, rules: WebhookSettings) -> Target:
    """Raises `Malformed` for a URL that is none or may not be, `AddressRefused` for an address."""
    url = _parsed(text)
    _bare(text, url)
    schemes = ("https", "http") if rules.allow_http else ("https",)
    if url.scheme not in schemes:
        raise Malformed(f"webhook: the scheme is {url.scheme[:20]!r}; use {' or '.join(schemes)}")
    port = url.port or 0
    if port not in rules.ports and not (url.scheme == "http" and port == 80):
        listed = ", ".join(map(str, rules.ports))
        raise Malformed(f"webhook: port {port} may not be used; this server sends to {listed}")
    host = url.raw_host or ""
    if is_address := _is_address(host):
        address = parse(host)
        if (why := why_refused(address, rules.allow_private)) is not None:
            raise AddressRefused(f"webhook: {address} is {why}; name a public host")
    return Target(url, host, port, is_address)


def _parsed(text: str) -> URL:
    if len(text) > WEBHOOK_CHARACTERS_MAX:
        raise Malformed(f"webhook: {len(text)} characters; at most {WEBHOOK_CHARACTERS_MAX}")
    if not _TEXT.fullmatch(text) or "\\" in text:
        raise Malformed(
            "webhook: a URL is visible ASCII without a backslash; write names in their xn-- form "
            "and the rest percent-encoded"
        )
    try:
        url = URL(text)
        _ = url.port  # parsed when it is asked for
    except ValueError as error:
        raise Malformed(f"webhook: no URL: {str(error)[:100]}") from error
    if not url.absolute or not url.raw_host:
        raise Malformed("webhook: no host; write https://host/path")
    return url


def _bare(text: str, url: URL) -> None:
    authority = re.split(r"[/?#]", text.partition("://")[2], maxsplit=1)[0]
    if "@" in authority or url.user is not None or url.password is not None:
        raise Malformed("webhook: no user or password in the URL; messages are signed instead")
    if "#" in text:
        raise Malformed("webhook: no fragment; it would not be sent")


def _is_address(host: str) -> bool:
    """Whether the host is an IP address in its usual form; other forms are `Malformed`."""
    try:
        parse(host)
    except ValueError:
        pass
    else:
        return True
    labels = host.split(".")
    if (
        len(host) > 253
        or not all(_LABEL.fullmatch(label) for label in labels)
        or _NUMBER.fullmatch(labels[-1])
    ):
        raise Malformed(
            f"webhook: {host[:60]!r} is no host's name; write it in small letters without a dot at "
            "the end, and an address as 203.0.113.7 or [2001:db8::7]"
        )
    return False
