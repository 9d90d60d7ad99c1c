"""Was this sample perhaps stored before? A Bloom filter, so that a new one costs no query. Pure.

Bloom 1970; the bit positions are sums of two hashes (Kirsch and Mitzenmacher 2006), which here are
the two halves of a UUID that is random already. "No" is certain for what was added; "perhaps" is
wrong for 1 in 100 and costs a query. Nothing is removed: two filters take turns, so what the store
has evicted is forgotten in time, and memory stays the same.
"""

from uuid import UUID

_BITS_PER_SAMPLE = 10
_HASHES = 7  # 10 bits x ln 2
_LOW = (1 << 64) - 1
_MIX = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: spreads ids that a device made without care


class KnownSamples:
    """Remembers at least the newest `samples_max`; 2.5 bytes for each."""

    def __init__(self, samples_max: int) -> None:
        self._samples_max = samples_max
        self._bits = samples_max * _BITS_PER_SAMPLE + 64
        self._new, self._old = self._empty(), self._empty()
        self._added = 0

    def add(self, sample: UUID) -> None:
        if self._added == self._samples_max:
            self._old = self._new  # first, so that another thread sees every sample throughout
            self._new, self._added = self._empty(), 0
        for place in self._places(sample):
            self._new[place >> 3] |= 1 << (place & 7)
        self._added += 1

    def __contains__(self, sample: UUID) -> bool:
        places = self._places(sample)
        return _holds(self._new, places) or _holds(self._old, places)

    def _empty(self) -> bytearray:
        return bytearray(self._bits // 8 + 1)

    def _places(self, sample: UUID) -> list[int]:
        first, second = sample.int * _MIX >> 64 & _LOW, (sample.int & _LOW) * _MIX & _LOW | 1
        return [(first + n * second) % self._bits for n in range(_HASHES)]


def _holds(filter_: bytearray, places: list[int]) -> bool:
    return all(filter_[place >> 3] & 1 << (place & 7) for place in places)
