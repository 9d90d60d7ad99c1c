"""A virtual environment for each peer, whose pins would not agree in one."""

import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement

from simulations.serve_bench.peers import PEERS, PEERS_FOLDER, Peer


def install(names: Iterable[str], *, is_lasting: bool = True) -> dict[str, str]:
    """Install what these peers need; give why not, by name, for those that did not install.

    What is complete stays as it is; what failed is told again without trying, unless `is_lasting`.
    """
    failed: dict[str, str] = {}
    for name in names:
        peer = PEERS[name]
        if not peer.environment or is_installed(peer):
            continue
        why = PEERS_FOLDER / f"{peer.environment}.failed"
        if is_lasting and why.exists():
            failed[name] = why.read_text()
            continue
        print(f"installing {', '.join(peer.packages)}", file=sys.stderr, flush=True)
        said = _install(peer)
        if said is None:
            why.unlink(missing_ok=True)
        else:
            failed[name] = said
            why.write_text(said)
    return failed


def is_installed(peer: Peer) -> bool:
    """Whether its environment was completed."""
    return not peer.environment or _complete(peer).exists()


def version(peer: Peer) -> str:
    """Give the version of what it is about, "" for our own."""
    if not peer.environment:
        return ""
    wanted = Requirement(peer.packages[0]).name.lower().replace("-", "_")
    packages = [str(path) for path in peer.python.parents[1].glob("lib/python*/site-packages")]
    for one in distributions(path=packages):
        if one.name.lower().replace("-", "_") == wanted:
            return peer.version_of + one.version
    return "?"


def _complete(peer: Peer) -> Path:
    return PEERS_FOLDER / f"{peer.environment}.complete"


def _install(peer: Peer) -> str | None:
    """Give the first error that pip told when it failed."""
    folder = PEERS_FOLDER / peer.environment
    folder.parent.mkdir(parents=True, exist_ok=True)
    for argv in (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(peer.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *peer.packages],
    ):  # fmt: skip
        ran = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603  no shell
        if ran.returncode:
            lines = [line for line in ran.stderr.splitlines() if line.strip()]
            errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
            return (errors[0] if errors else f"exit code {ran.returncode}")[:300]
    _complete(peer).touch()
    return None
