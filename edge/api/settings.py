"""The bounds of the local API."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    body_bytes_max: int = 8 * 1024 * 1024
    """Of a request's body, after decompression; 8 MiB hold 50 images of 224 x 224 x 3."""

    rows_max: int = 256
    """Samples in one request; more would keep others waiting for too long."""

    wait_ms_max: float = 1000.0
    """The full path's deadline: nobody is kept waiting for a final answer beyond it."""

    body_s_max: float = 10.0
    """Seconds for a body to arrive; a loopback needs milliseconds, a tethered phone seconds."""

    idle_s_max: float = 10.0
    """Seconds without a complete request head until a connection is closed."""

    linger_s_max: float = 1.0
    """Seconds in which the rest of a refused body is thrown away, so that its sender reads why."""

    connections_max: int = 256
    """Open at once; each takes a file descriptor and about 50 KiB."""

    streams_max: int = 16
    """Subscribers to corrections; each has a queue in the agent."""

    heartbeat_s: float = 15.0
    """Seconds between signs of life on a quiet stream; proxies cut after 30 or more."""

    stream_stall_s_max: float = 5.0
    """Seconds for which a reader may take nothing until its stream is closed."""
