"""What `hybridge-edge enrol` reads and says."""

from datetime import UTC, datetime
from typing import TextIO

from edge.identity.enrol import Enrolment
from edge.identity.schedule import RENEW_FROM
from shared.errors import Malformed

_LINE_MAX = 300


def token_from(argument: str, stdin: TextIO) -> str:
    """`-`: the first line of stdin, so that no list of processes shows it. Raises `Malformed`."""
    token = stdin.readline(_LINE_MAX).strip() if argument == "-" else argument
    if not token.startswith("het_"):
        raise Malformed("--token: want het_..., as `hybridge device enrol` gives it")
    return token


def words(done: Enrolment) -> str:
    validity = done.present.validity
    renew_at = validity.not_before + RENEW_FROM * validity.life_s
    lines = [
        f"{done.present.device} is enrolled: certificate {done.present.serial}",
        f"  files     {done.folder}",
        f"  good until {_day(validity.not_after)}; the agent renews it from {_day(renew_at)} on",
    ]
    if done.broker is not None:
        lines.append(f"  broker    {done.broker}: set it as [uplink] url, if it is not")
    return "\n".join(lines)


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
