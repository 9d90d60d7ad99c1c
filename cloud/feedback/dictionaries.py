"""What payloads are decoded with: the dictionaries of the bundles that this region knows."""

from typing import Protocol

from shared.wire.pixels import Decoder


class Dictionaries(Protocol):
    """Whoever knows bundles fills this: from the registry, or from folders."""

    def dictionaries(self) -> tuple[bytes, ...]:
        """Zstandard dictionaries, whole, of every edge bundle that may have sent what is stored.

        Called from any thread, once for each sample that is shown and each data set that is built.
        """
        ...


class NoDictionaries:
    """For payloads that need none."""

    def dictionaries(self) -> tuple[bytes, ...]:
        return ()


def decoder_of(dictionaries: Dictionaries) -> Decoder:
    """For one thread."""
    return Decoder(dictionaries.dictionaries())
