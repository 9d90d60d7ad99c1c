"""A registry's published metadata in memory, made by the real edits and real keys; whoever attacks
changes `files`.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from cloud.registry.documents import StoredFile
from cloud.registry.trust import edits, online
from cloud.registry.trust.edits import Holders
from cloud.registry.trust.settings import TrustSettings
from shared.trust.names import file_name, model_role
from shared.trust.store import TrustStore
from shared.trust.tuf_api import CryptoSigner

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def key() -> CryptoSigner:
    return CryptoSigner.generate_ed25519()


def manifest_of(model: str, version: str) -> bytes:
    return f'{{"name":"{model}","version":"{version}"}}'.encode()


def stored(content: bytes) -> StoredFile:
    sha256 = hashlib.sha256(content).hexdigest()
    return StoredFile(path="manifest.json", sha256=sha256, bytes=len(content))


def holders(*signers: CryptoSigner, threshold: int = 1) -> Holders:
    return Holders(tuple(signer.public_key for signer in signers), threshold)


class Site:
    """`keys` by role; `release` is every model's. Root is 2 of 3."""

    def __init__(self, now: datetime = NOW, models: tuple[str, ...] = ("fashion",)) -> None:
        self.now = now
        self.settings = TrustSettings()
        self.keys = {role: [key()] for role in ("targets", "snapshot", "timestamp", "release")} | {
            "root": [key(), key(), key()]
        }
        self.files: dict[str, bytes] = {}
        self.newest: dict[str, bytes] = {}
        self.fetched: list[tuple[str, int]] = []
        root = edits.new_root(
            {
                "root": holders(*self.keys["root"], threshold=2),
                **{
                    role: holders(*self.keys[role]) for role in ("targets", "snapshot", "timestamp")
                },
            },
            now,
            730,
        )
        targets = edits.with_delegation(
            edits.new_targets(now, 365),
            {model: holders(*self.keys["release"]) for model in models},
            now,
            365,
        )
        self.put("root", edits.sign(root, "root", self.keys["root"][:2]))
        self.publish({"targets": edits.sign(targets, "targets", self.keys["targets"])})

    @property
    def root(self) -> bytes:
        return self.newest["root"]

    def put(self, role: str, content: bytes) -> None:
        version = edits.read(content, role, role).signed.version
        self.files[file_name(role, version)] = self.newest[role] = content

    def publish(self, changed: Mapping[str, bytes], *, root_changed: bool = False) -> None:
        """These files, and the snapshot and timestamp for them."""
        for role, content in changed.items():
            self.put(role, content)
        signers = {s.public_key.keyid: s for held in self.keys.values() for s in held}
        for role, content in online.resigned(
            edits.read(self.root, "root", "root").signed, changed,
            self.newest.get("snapshot"), self.newest.get("timestamp"),
            signers, self.settings, self.now, root_changed=root_changed,
        ).items():  # fmt: skip
            self.put(role, content)

    def release(
        self, model: str, version: str, *, signers: list[CryptoSigner] | None = None
    ) -> None:
        role = model_role(model)
        content = edits.with_release(
            self.newest.get(role),
            model,
            version,
            stored(manifest_of(model, version)),
            self.now,
            365,
        )
        self.publish({role: edits.sign(content, role, signers or self.keys["release"])})

    def turn_root(
        self, changed: Mapping[str, Holders], signers: list[CryptoSigner], epoch: int | None = None
    ) -> None:
        root = edits.next_root(self.root, self.now, 730, holders=changed, epoch=epoch)
        self.put("root", edits.sign(root, "root", signers))

    def later(self, days: float) -> None:
        """Time passes, and the registry signs what is due."""
        self.now += timedelta(days=days)
        self.publish({})

    async def fetch(self, name: str, bytes_max: int) -> bytes | None:
        content = self.files.get(name)
        self.fetched.append((name, 0 if content is None else len(content)))
        return None if content is None else content[: bytes_max + 1]


async def versions(store: TrustStore, site: Site, now: datetime | None = None) -> list[str]:
    """What a device takes for released after a refresh, newest first."""
    trusted = await store.refresh(site.fetch, "fashion", now or site.now)
    return [release.version for release in trusted.releases]
