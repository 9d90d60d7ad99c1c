"""One chain of trust in the making: bytes in, verdicts out. No I/O, no clock of its own.

The checks are python-tuf's (`TrustedMetadataSet`, the TUF specification 1.0.31, section 5.3);
here are what it leaves open: the profile, our errors, and the time that counts.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from tuf.api.exceptions import (
    BadVersionNumberError,
    EqualVersionNumberError,
    ExpiredMetadataError,
    LengthOrHashMismatchError,
    RepositoryError,
    UnsignedMetadataError,
)

from shared.errors import HybridgeError, NotTrusted, Unavailable
from shared.trust import profile
from shared.trust.names import EPOCH, ISSUED, model_role
from shared.trust.tuf_api import (
    EnvelopeType,
    Root,
    Snapshot,
    Targets,
    Timestamp,
    TrustedMetadataSet,
)

ALWAYS: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""A time at which nothing has expired."""


def epoch_of(root: Root) -> int:
    """How many homes the registry has had, as its root says it."""
    return int(root.unrecognized_fields[EPOCH])


class Chain:
    """root -> timestamp -> snapshot -> targets -> a model's role, in this order."""

    def __init__(self, pinned_root: bytes) -> None:
        """`pinned_root`: what is believed without proof. Raises `Malformed` or `NotTrusted`."""
        profile.check(pinned_root, "root", "pinned root")
        with in_words_of_tuf("pinned root"):
            self._set = TrustedMetadataSet(pinned_root, EnvelopeType.METADATA)
        self._set.reference_time = ALWAYS
        self.files: dict[str, bytes] = {}
        """By role, what was verified, but for the roots."""

    @property
    def root(self) -> Root:
        return self._set.root

    @property
    def timestamp(self) -> Timestamp:
        return self._set.timestamp

    @property
    def snapshot(self) -> Snapshot:
        return self._set.snapshot

    @property
    def targets(self) -> Targets:
        return self._set.targets

    @property
    def issued(self) -> datetime:
        """When the timestamp was signed, by the registry's clock."""
        seconds = int(self.timestamp.unrecognized_fields[ISSUED])
        return datetime.fromtimestamp(seconds, UTC)

    def model(self, model: str) -> Targets:
        found = self._set[model_role(model)]
        assert isinstance(found, Targets)
        return found

    def judge_at(self, moment: datetime) -> None:
        """What expires at or before `moment` is refused from here on."""
        self._set.reference_time = moment

    def add_root(self, content: bytes) -> None:
        """The next version, signed by enough keys of the last one and of its own."""
        where = f"{self.root.version + 1}.root.json"
        profile.check(content, "root", where)
        with in_words_of_tuf(where):
            before = epoch_of(self.root)
            self._set.update_root(content)
        if epoch_of(self.root) < before:
            raise NotTrusted(
                f"{where}: its epoch fell from {before} to {epoch_of(self.root)}; a new root keeps "
                "or raises it"
            )

    def add_timestamp(self, content: bytes) -> bool:
        """False when it is the version that is there already, which then stays."""
        profile.check(content, "timestamp", "timestamp.json")
        with in_words_of_tuf("timestamp.json"):
            try:
                self._set.update_timestamp(content)
            except EqualVersionNumberError:
                return False
        self.files["timestamp"] = content
        return True

    def add_snapshot(self, content: bytes, *, kept: bool) -> None:
        """`kept`: it was verified before; its place in the timestamp may be another's by now."""
        where = f"{self.timestamp.snapshot_meta.version}.snapshot.json"
        profile.check(content, "snapshot", where)
        with in_words_of_tuf(where):
            self._set.update_snapshot(content, trusted=kept)
        self.files["snapshot"] = content

    def add_targets(self, content: bytes) -> None:
        self._add("targets", content)

    def add_model(self, model: str, content: bytes) -> None:
        self._add(model_role(model), content)

    def _add(self, role: str, content: bytes) -> None:
        meta = self.snapshot.meta.get(f"{role}.json")
        where = f"{role}.json" if meta is None else f"{meta.version}.{role}.json"
        profile.check(content, role, where)
        with in_words_of_tuf(where):
            parent = Root.type if role == Targets.type else Targets.type
            self._set.update_delegated_targets(content, role, parent)
        self.files[role] = content


@contextmanager
def in_words_of_tuf(where: str) -> Iterator[None]:
    """python-tuf's verdicts as ours."""
    try:
        yield
    except HybridgeError:
        raise
    except ExpiredMetadataError as error:
        raise NotTrusted(
            f"{where}: {error}: what runs goes on running; a new release needs fresh metadata: see "
            "that the registry runs, that this clock is right, or have the role signed again"
        ) from error
    except BadVersionNumberError as error:
        raise NotTrusted(
            f"{where}: {error}: older than what was seen before, or out of step; a registry that "
            "was set back is not followed"
        ) from error
    except UnsignedMetadataError as error:
        raise NotTrusted(
            f"{where}: {error}: not signed by enough of the keys that may; have it signed by them"
        ) from error
    except LengthOrHashMismatchError as error:
        raise NotTrusted(
            f"{where}: {error}: not the file that was signed for; fetch it from another registry"
        ) from error
    except (RepositoryError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise NotTrusted(f"{where}: does not check out: {error}") from error


def missing(where: str) -> Unavailable:
    """What signed metadata names is not there (yet: a replica may be behind)."""
    return Unavailable(
        f"{where}: the registry names it and does not have it; try later, or another"
    )
