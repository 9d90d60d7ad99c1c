"""What need not be done anew for a call whose JSON header came before, byte for byte.

The protocol's JSON header costs a fifth of a request's time (FINDINGS 9), and clients send the same
one with every call. So what was read from it, and the head of the answer to it, are kept.
"""

import math
import weakref
from collections.abc import Callable, Mapping

import numpy as np

from cloud.api.answer import Part, answer_header, answer_parts, write_answer
from cloud.api.call import Asked, Tier, read_call, rows_of
from cloud.api.settings import CallLimits
from cloud.serving.inference import Answer, Guard
from cloud.serving.job import Rows
from cloud.serving.served import Served
from shared.oip.body import Encoded

_KEPT_MAX = 256  # JSON headers of one model; a client whose headers all differ must not fill memory
_FP32_BYTES = 4
_HEADS_MAX = 8  # of one call's answer: it differs by source, and by the bytes of its labels


class Kept:
    """One JSON header, read; the answers to it are alike but for their binary parts."""

    __slots__ = (
        "_by_source", "_bytes", "_dtype", "_heads", "_logit_bytes", "_manifest", "_only_logits",
        "_shape", "_version", "asked", "guard", "is_asynchronous",
    )  # fmt: skip

    def __init__(self, served: Served, asked: Asked, guard: Guard) -> None:
        self._manifest, self._version, self.asked = served.manifest, served.version, asked
        self.guard = guard
        self.is_asynchronous = asked.tier is Tier.ASYNCHRONOUS
        self._shape, self._dtype = asked.shape, asked.dtype
        self._bytes = math.prod(asked.shape) * asked.dtype.itemsize
        graph = served.manifest.outputs[0]
        self._only_logits = asked.wanted == ((graph.name, True),)  # what most ask for
        self._logit_bytes = asked.shape[0] * math.prod(graph.shape) * _FP32_BYTES
        self._heads: dict[tuple[str, tuple[int, ...]], tuple[bytes, bytes]] = {}
        self._by_source: dict[str, tuple[bytes, bytes]] = {}

    def rows(self, content: memoryview) -> Rows:
        """What `rows_of` gives and raises, but for NaN and infinities: the engine looks for those in
        the whole batch at once, and only their own request fails by it.
        """
        if len(content) != self._bytes:
            return rows_of(self.asked, content)
        return np.frombuffer(content, self._dtype).reshape(self._shape)

    def written(self, answer: Answer) -> tuple[bytes, tuple[Part, ...]]:
        """The HTTP head, open for more fields, and the body in pieces.

        Raises `Unavailable` for outputs that JSON cannot carry.
        """
        outputs, source = answer.outputs, answer.source
        asked, manifest = self.asked, self._manifest
        if self._only_logits:
            head, json = self._by_source.get(source) or self._head(source, (self._logit_bytes,))
            return head, (json, outputs.logits.data)
        if not asked.all_binary:
            encoded = write_answer(asked, manifest, outputs, self._version, source)
            return _head(encoded.headers, len(encoded.body)), (encoded.body,)
        parts = answer_parts(asked, manifest, outputs, source)
        sizes = tuple([len(p) if isinstance(p, bytes) else p.nbytes for p in parts])
        head, json = self._head(source, sizes)
        return head, (json, *parts)

    def _head(self, source: str, sizes: tuple[int, ...]) -> tuple[bytes, bytes]:
        key = source, sizes
        found = self._heads.get(key)
        if found is None:
            if len(self._heads) >= _HEADS_MAX:
                self._heads.clear()
            rows = self.asked.shape[0]
            json = answer_header(self.asked, self._manifest, rows, self._version, source, sizes)
            headers = Encoded(json, len(json)).headers
            found = self._heads[key] = _head(headers, len(json) + sum(sizes)), json
            if self._only_logits:
                self._by_source[source] = found
        return found


class KeptCalls:
    """By model version and JSON header. Nothing here keeps a version in memory that was replaced."""

    def __init__(self, limits: CallLimits, guard_of: Callable[[Served], Guard]) -> None:
        self._limits, self._guard_of = limits, guard_of
        self._by_model: dict[int, dict[bytes, Kept]] = {}  # by the `id` of a `Served` that lives

    def find(self, served: Served, header: bytes) -> Kept | None:
        of_model = self._by_model.get(id(served))
        return None if of_model is None else of_model.get(header)

    def read(
        self, served: Served, body: memoryview, header_length: str | None, header: bytes
    ) -> tuple[Kept, Rows]:
        """The long way, once; kept where all data is binary. Raises what `read_call` does."""
        call = read_call(body, header_length, served.signature, self._limits)
        kept = Kept(served, call.asked, self._guard_of(served))
        if call.asked.binary:
            self._keep(served, header, kept)
        return kept, call.rows

    def _keep(self, served: Served, header: bytes, kept: Kept) -> None:
        of_model = self._by_model.get(id(served))
        if of_model is None:
            of_model = self._by_model[id(served)] = {}
            weakref.finalize(served, self._by_model.pop, id(served), None)
        if len(of_model) >= _KEPT_MAX:
            of_model.clear()
        of_model[header] = kept


def _head(headers: Mapping[str, str], length: int) -> bytes:
    fields = "".join(f"{name}: {text}\r\n" for name, text in headers.items())
    return f"HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\n".encode()
