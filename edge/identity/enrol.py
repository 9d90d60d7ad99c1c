"""The device's certificate from the region: the first one for a token, the next for the present."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from edge.identity.address import check_url
from edge.identity.files import Present, described, identity_files, install, present
from edge.identity.key import new_key_and_request
from edge.identity.region import post
from edge.identity.schedule import is_wrong
from edge.identity.settings import Identity
from edge.identity.tls import client_context
from shared.errors import Malformed, Unknown
from shared.fleet.enrolling import Enrolled


@dataclass(frozen=True, slots=True)
class Enrolment:
    present: Present
    broker: str | None
    """As the region says that devices reach it."""
    folder: Path


async def enrol(
    url: str, token: str, device: str, state_dir: Path, *, ca: Path | None, timeout_s: float = 30.0
) -> Enrolment:
    """Show a one-time token and keep what it brings. `ca`: PEM file; None: the system's authorities.

    Raises as `region.post` and `files.install`; nothing is kept then. A token whose answer was lost
    is used up all the same.
    """
    check_url(url)
    key, request = await asyncio.to_thread(new_key_and_request, device)
    tls = await asyncio.to_thread(client_context, ca, None)
    body = {"token": token, "device": device, "csr": request}
    answer = await post(_under(url, "enrol"), body, tls, timeout_s=timeout_s)
    kept = await asyncio.to_thread(_keep, state_dir, device, key, answer)
    files = identity_files(state_dir)
    assert files is not None, "it was just installed"
    return Enrolment(kept, answer.broker, files.key.parent)


async def renew(settings: Identity, device: str, state_dir: Path) -> Present:
    """Get the next certificate for a new key, by showing the present one.

    The present one stays good until its end. Raises as `enrol`, and `Unknown` without one.
    """
    files, before = identity_files(state_dir), await asyncio.to_thread(present, state_dir)
    if files is None or before is None:
        raise Unknown(f"{state_dir}: this device is not enrolled; run `hybridge-edge enrol`")
    began = before.validity.not_before
    is_slow = is_wrong(before.validity, time.time())
    tls = await asyncio.to_thread(
        client_context, settings.ca or files.ca, files, later_than=began if is_slow else None
    )
    key, request = await asyncio.to_thread(new_key_and_request, device)
    url = _under(settings.url, "renew")
    answer = await post(url, {"csr": request}, tls, timeout_s=settings.timeout_s)
    return await asyncio.to_thread(_keep, state_dir, device, key, answer)


def _keep(state_dir: Path, device: str, key: bytes, answer: Enrolled) -> Present:
    content = answer.certificate.encode()
    named = described(content, "the region's answer").device
    if named != device:
        raise Malformed(f"the region's answer: is a certificate for {named[:80]!r}, not {device!r}")
    return install(state_dir, key, content, answer.ca.encode())


def _under(url: str, what: str) -> str:
    return f"{url.rstrip('/')}/v1/{what}"
