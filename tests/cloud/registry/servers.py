"""A real registry process on a free port, with keys of each role, for everybody's tests."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from cloud.gateway.roles import Role
from tests.cloud.keyed_process import KeyedProcess

ROLES = (Role.FETCH, Role.VIEWER, Role.TRAINER, Role.APPROVER, Role.OPERATOR)


class RegistryProcess(KeyedProcess):
    def __init__(self, folder: Path, settings: str = "", *arguments: str) -> None:
        super().__init__("registry", folder, ROLES, settings, {}, *arguments)

    @property
    def children(self) -> list[int]:
        """Process ids of its evaluators."""
        assert self.process is not None
        tasks = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        with contextlib.suppress(FileNotFoundError):
            return [int(pid) for pid in tasks.read_text().split()]
        return []


@contextlib.contextmanager
def registry(folder: Path, settings: str = "", *arguments: str) -> Iterator[RegistryProcess]:
    """Running until the block ends; then killed."""
    with RegistryProcess(folder, settings, *arguments) as running:
        yield running
