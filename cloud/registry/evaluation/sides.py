"""Which variants are measured, and which of the current release stands against each."""

from collections.abc import Sequence

from shared.bundle.manifest import Manifest, Variant


def under_gate(manifest: Manifest, engines: Sequence[str]) -> tuple[Variant, ...]:
    """All variants of the gate's engines: which of them a device takes, it decides itself."""
    return tuple(variant for variant in manifest.variants if variant.engine in engines)


def counterpart(variant: Variant, current: Manifest, engines: Sequence[str]) -> Variant:
    """The same variant of the current release, or else the nearest that it has."""

    def distance(other: Variant) -> tuple[bool, bool, bool]:
        return (
            other.engine != variant.engine,
            other.precision != variant.precision,
            other.engine not in engines,
        )

    return min(current.variants, key=distance)
