"""What a client saw, line by line, in a file that outlives kill -9 of the client.

A client writes before it acknowledges: what the broker may forget, the journal knows. Times are
`time.monotonic_ns`, which is one clock for all processes of a machine.
"""

import os
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple


class Saw(StrEnum):
    """Kinds of entries; what the fields of an `Event` mean for each."""

    CONNECTED = "connected"
    """`code`: session present; `detail`: the user name."""
    SUBSCRIBED = "subscribed"
    """`code`: SUBACK's reason; `topic`: the filter; `at` is when SUBSCRIBE was sent."""
    SENT = "sent"
    """`code`: QoS; `detail`: `retain` or empty. Written before the bytes leave."""
    ACKED = "acked"
    """`code`: reason of PUBACK, or of PUBREC once PUBCOMP came."""
    SILENT = "silent"
    """A connection ended on which this message had waited too long for its acknowledgement."""
    ABANDONED = "abandoned"
    """QoS 2 whose session the broker lost: sending it again could deliver it twice."""
    RECEIVED = "received"
    """`code`: QoS; `detail`: `retain` or empty. A share member writes it when it acknowledges."""
    RELEASED = "released"
    """PUBREL came for `packet_id`."""
    WILL = "will"
    """A connection with this will ended; `detail`: `clean`, `broken` or `unknown`."""
    KILLED = "killed"
    """`client`: the broker, or the client process, that got kill -9."""


class Event(NamedTuple):
    """One entry."""

    saw: Saw
    at: int
    client: str
    message: str = ""
    topic: str = ""
    code: int = 0
    packet_id: int = 0
    detail: str = ""


class Journal:
    """Appends entries; one write for as many as came at once."""

    def __init__(self, path: Path) -> None:
        """Open or go on with a journal."""
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, *events: Event) -> None:
        """Hand entries to the kernel, which keeps them when this process is killed."""
        lines = "".join(_line(event) for event in events)
        os.write(self._file, lines.encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def now() -> int:
    """Time for entries, in nanoseconds."""
    return time.monotonic_ns()


def message_of(payload: bytes) -> str:
    """Give the id that a payload begins with; noise has none that anybody knows."""
    return payload[:100].partition(b" ")[0].decode(errors="replace")


def _line(event: Event) -> str:
    fields = [str(one).replace("\t", "?").replace("\n", "?") for one in event]
    return "\t".join(fields) + "\n"


def parse(line: str) -> Event:
    """Read one line."""
    saw, at, client, message, topic, code, packet_id, detail = line.split("\t")
    return Event(Saw(saw), int(at), client, message, topic, int(code), int(packet_id), detail)


class Tail:
    """Reads what was appended since the last time; a line cut by kill -9 is no entry."""

    def __init__(self, path: Path) -> None:
        """Begin at the start; the file may come later."""
        self._path = path
        self._at = 0

    def read(self) -> Iterator[Event]:
        """Give the new entries."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read()
        except FileNotFoundError:
            return
        whole = data.rfind(b"\n") + 1
        self._at += whole
        for line in data[:whole].decode().split("\n")[:-1]:
            yield parse(line)
