"""Credentials that checked out, by their very text. Pure.

Two generations stand for a list by last use: the young one takes what is new or found in the old
one; when it is full it becomes the old one, and what was there is forgotten. So a look-up is one
dictionary access, and what is used stays.

That a dictionary compares text by its hash and then at once is no way to guess a key: the hash is
64 bits under a secret of this process (SipHash), and must agree before anything else is compared.
"""

from cloud.gateway.caller import Caller


class Seen:
    """Up to `entries_max` callers."""

    __slots__ = ("_half", "old", "young")

    def __init__(self, entries_max: int) -> None:
        self._half = max(1, entries_max // 2)
        self.young: dict[str, Caller] = {}
        self.old: dict[str, Caller] = {}

    def __len__(self) -> int:
        return len(self.young) + len(self.old)

    def again(self, credential: str, now: float) -> Caller | None:
        """Give the caller of a credential that is in the old generation, and keep it."""
        caller = self.old.pop(credential, None)
        if caller is None or now >= caller.until:
            return None
        self.add(credential, caller)
        return caller

    def add(self, credential: str, caller: Caller) -> None:
        if len(self.young) >= self._half and credential not in self.young:
            self.old, self.young = self.young, {}
        self.old.pop(credential, None)
        self.young[credential] = caller
