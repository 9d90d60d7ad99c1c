"""What can be run: a released bundle, or the one that the device was set up with. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Release:
    version: str
    manifest_sha256: str
    manifest_bytes: int
    number: int
    """Rises with every release of the model; 0 is the factory bundle, which nobody released."""

    @property
    def factory(self) -> bool:
        return self.number == 0

    @property
    def folder(self) -> str:
        """Its folder's name: two bundles that call themselves the same have two."""
        return f"{self.version}-{self.manifest_sha256[:16]}"

    def same_as(self, other: "Release | None") -> bool:
        """Whether the bytes are the same, however often and as what they were released."""
        return other is not None and self.manifest_sha256 == other.manifest_sha256

    def __str__(self) -> str:
        return f"{self.version} (factory)" if self.factory else f"{self.version} (#{self.number})"
