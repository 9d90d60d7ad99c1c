"""What the registry's paths, and values of its own, may hold. Pure."""

import re
from typing import Final

from cloud.api.checked import PathRules, shown
from shared.bundle.manifest import VERSION
from shared.errors import Malformed

_NAME: Final = r"[a-z0-9][a-z0-9-]{0,63}"
_MACHINE: Final = r"[A-Za-z0-9_.-]{1,64}"
_ROLE: Final = rf"(root|targets|snapshot|timestamp|model-{_NAME})"

PATHS: Final = PathRules({
    "model": (_NAME, "1 to 64 of a-z, 0-9 and '-', as 'fashion-edge'"),
    "data_set": (_NAME, "1 to 64 of a-z, 0-9 and '-', as 'fashion-test'"),
    "version": (VERSION, "three numbers, as '1.4.0'"),
    "number": (r"[1-9][0-9]{0,5}", "a number from 1, as '3'"),
    "sha256": (r"[0-9a-f]{64}", "64 lowercase hexadecimal digits"),
    "id": (r"[0-9a-f-]{36}", "an evaluation's id, as it was given"),
    "runner": (_MACHINE, "1 to 64 of A-Z, a-z, 0-9, '_', '.' and '-'"),
    "replica": (_MACHINE, "1 to 64 of A-Z, a-z, 0-9, '_', '.' and '-'"),
    "role": (_ROLE, "root, targets, snapshot, timestamp or model-NAME"),
    "file": (rf"([1-9][0-9]{{0,8}}\.)?{_ROLE}\.json", "as '3.targets.json' or 'timestamp.json'"),
})  # fmt: skip


def check_version(text: str | None) -> str | None:
    """A version in a query. Raises `Malformed`."""
    if text is not None:
        PATHS.check("version", text)
    return text


def check_model(text: str | None) -> str | None:
    """A model's name in a query. Raises `Malformed`."""
    if text is not None:
        PATHS.check("model", text)
    return text


def count_header(name: str, text: str | None) -> int:
    """A header that is a whole number of bytes. Raises `Malformed`."""
    if text is None or not re.fullmatch(r"[0-9]{1,15}", text, re.ASCII):
        raise Malformed(f"{name}: {shown(text or '')} is no number of bytes; send it")
    return int(text)
