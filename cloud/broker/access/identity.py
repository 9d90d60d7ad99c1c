"""Who a client is, once it has shown what it had to show. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """A client that was let in. `gate` makes these; nothing in here is a mere claim."""

    client_id: str
    username: str | None
    """As checked: from a certificate or with a password. None: anonymous."""
    is_owner: bool = False
    """The process that launched the broker, known by a secret that it made for this run."""

    def may_resume(self, username: str | None) -> bool:
        """Say whether this client may take over a session that `username` left or holds.

        The specification identifies a session by its client identifier alone (4.1), which anybody
        may claim. Without this check a client takes another's queued messages by taking its name.
        """
        return username == self.username
