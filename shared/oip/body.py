"""A body: the JSON header, then what `Inference-Header-Content-Length` splits off as binary."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.errors import Malformed
from shared.oip.documents import Document, dump, parse
from shared.oip.tensors import BinarySection, Tensor, read_tensor, write_tensor

HEADER_LENGTH = "Inference-Header-Content-Length"
TENSORS_MAX = 64


@dataclass(frozen=True, slots=True)
class Encoded:
    """`header_bytes` is what `Inference-Header-Content-Length` must say; None: all is JSON."""

    body: bytes
    header_bytes: int | None

    @property
    def headers(self) -> dict[str, str]:
        """What the transport must say beside the body."""
        if self.header_bytes is None:
            return {"Content-Type": "application/json"}
        return {
            "Content-Type": "application/octet-stream",
            HEADER_LENGTH: str(self.header_bytes),
        }


def split(
    body: bytes | bytearray | memoryview, header: str | None
) -> tuple[Document, BinarySection]:
    """The parsed JSON header and what lies behind it; `header` is the text of that HTTP header."""
    content = memoryview(body).toreadonly()
    length = len(content)
    if header is not None:
        if not (header.isascii() and header.isdigit() and len(header) <= 12):
            raise Malformed(f"{HEADER_LENGTH} is {header[:40]!r}; expected a count of bytes")
        length = int(header)
        if length > len(content):
            raise Malformed(f"{HEADER_LENGTH} is {length}; the whole body has {len(content)} bytes")
    return parse(content[:length], "the body's JSON"), BinarySection(content[length:])


def read_tensors(documents: list[Document], what: str, binary: BinarySection) -> tuple[Tensor, ...]:
    """Every tensor in order; names must not repeat, and the binary section must end with them."""
    tensors = tuple(
        read_tensor(document, f"{what}[{index}]", binary)
        for index, document in enumerate(documents)
    )
    binary.end()
    no_repeats([tensor.name for tensor in tensors], what)
    return tensors


def join(document: Document, what: str, tensors: Sequence[tuple[Tensor, bool]]) -> Encoded:
    """A body whose member `what` lists the tensors; each goes as binary where its flag says so."""
    written = [write_tensor(tensor, binary=binary) for tensor, binary in tensors]
    header = dump({**document, what: [member for member, _ in written]})
    if not any(binary for _, binary in tensors):
        return Encoded(header, None)
    return Encoded(b"".join([header, *(content for _, content in written)]), len(header))


def no_repeats(names: list[str], what: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise Malformed(f"{what}: {name[:60]!r} stands there {names.count(name)} times")
