"""Settings of who asks a registry."""

from pydantic import Field

from shared.config import Count, Positive, Section


class ClientSettings(Section):
    """Bounds of one client's calls."""

    patience_s: Positive = 15.0
    """A call that the registry does not answer, or puts off, is tried again for so long. Default:
    a restart of the registry fits in, a person still waits."""
    upload_patience_s: Positive = 60.0
    """An upload of which nothing moves is tried again for so long. Default: twice the silence after
    which a registry lets go of a sender that is gone (`RegistryApi.upload_silence_s_max`)."""
    connect_s_max: Positive = 5.0
    """To reach one address. Default: two lost SYN packets (1 s, 3 s) are no failure yet."""
    silence_s_max: Positive = 30.0
    """A connection that carries nothing for so long is cut. Default: the disk of a busy registry
    syncs in less."""
    pause_s_min: Positive = 0.2
    """Bound of the pause before the second try; it doubles from there."""
    pause_s_max: Positive = 5.0
    """Bound of the pause between two tries."""
    answer_s_max: Positive = 300.0
    """A whole answer that is no artifact, from its headers on. Default: the largest one over 1 Mbit/s."""
    answer_bytes_max: Count = 32 * 1024 * 1024
    """Of one answer that is no artifact. Default: 10,000 versions, thrice."""
    transfers: Count = Field(default=2, le=32)
    """Files under way at once. Default: one crosses the network while another is hashed."""
    part_bytes: Count = 256 * 1024 * 1024
    """Of one upload request. Default: what is to send again after a cut stays small, and a request
    for each takes no time beside its bytes."""
