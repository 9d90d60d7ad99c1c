"""The last head that a home signed for what is here, kept so that a replica can pass it on."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from cloud.document import Document
from cloud.registry.documents import Head
from cloud.registry.replication.log_answer import LogAnswer, Signature
from cloud.registry.replication.trusted_root import TrustedRoot
from cloud.registry.trust.heads import verify_head
from shared.disk import write_whole
from shared.errors import Refused, Unavailable

_BYTES_MAX = 16 * 1024


class SignedHead(Document):
    head: Head
    signature: Signature
    newest: int


@dataclass(frozen=True, slots=True)
class SignedHeadFile:
    """A damaged file is as good as none: the next answer of the home writes it anew."""

    path: Path

    def read(self) -> SignedHead | None:
        try:
            with self.path.open("rb") as file:
                return SignedHead.model_validate_json(file.read(_BYTES_MAX))
        except (FileNotFoundError, ValidationError):
            return None
        except OSError as error:
            raise Unavailable(f"{self.path}: {error.strerror}") from error

    def write(self, signed: SignedHead) -> None:
        """Raises `Unavailable`."""
        write_whole(self.path, signed.model_dump_json().encode(), durable=False)


def is_signed(root: TrustedRoot, answer: LogAnswer) -> bool:
    """Whether a home of this root's epoch vouches for the answer's head."""
    try:
        verify_head(answer.head, answer.signature, root.root)
    except Refused:
        return False
    return True
