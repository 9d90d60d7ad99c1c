"""Signs the log's head for replicas, from any thread: with the snapshot keys of the newest root."""

import threading
from collections.abc import Mapping

from cloud.registry.documents import Head
from cloud.registry.trust import edits
from cloud.registry.trust.heads import sign_head
from cloud.registry.trust.repository import Repository
from shared.errors import NotTrusted, Unavailable
from shared.trust.tuf_api import CryptoSigner, Root


class HeadSigning:
    """`signers` by key id; none on a replica. Reads the root when it is told that it changed, and so
    signs without waiting for a disk.
    """

    def __init__(self, trust: Repository, signers: Mapping[str, CryptoSigner]) -> None:
        self._trust, self._signers = trust, signers
        self._root: Root | None = None
        self._last: tuple[Head, str] | None = None
        self._guard = threading.Lock()

    async def renew(self) -> None:
        """Raises `Unavailable`."""
        content = await self._trust.root()
        root = None if content is None else edits.read(content, "root", "root").signed
        with self._guard:
            self._root, self._last = root, None

    def sign(self, head: Head) -> str:
        """Raises `Unavailable` where nobody can vouch for the head (yet)."""
        with self._guard:
            if self._last is not None and self._last[0] == head:
                return self._last[1]
            root = self._root
        if root is None:
            raise Unavailable(
                "no root of trust is here yet, so nobody can vouch for the log; hand in the first "
                "root and targets"
            )
        try:
            signers = edits.signers_of(root.roles["snapshot"], self._signers, "the log's head")
        except NotTrusted as error:
            raise Unavailable(f"{error}; put them into trust.online_keys") from error
        signature = sign_head(head, signers)
        with self._guard:
            if self._root is root:
                self._last = (head, signature)
        return signature
