"""Like a device, as a process: told on a line to look, it verifies what is released and fetches it.

A line is a JSON object `{"model": ..., "urls": [...]}`, the answer too. The registries are asked in
their order; trust is kept from one look to the next.
"""

import asyncio
import hashlib
import json
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

from shared.errors import HybridgeError, Unavailable
from shared.trust.store import TrustStore

_TIMEOUT_S = 3.0


def _get(url: str, bytes_max: int) -> bytes | None:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:
            content: bytes = response.read(bytes_max + 1)
            return content
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 404:
                return None
            raise Unavailable(f"{url}: {error.code}") from error
    except OSError as error:
        raise Unavailable(f"{url}: {error}") from error


async def _look(store: TrustStore, model: str, url: str) -> dict[str, object]:
    async def fetch(name: str, bytes_max: int) -> bytes | None:
        return await asyncio.to_thread(_get, f"{url}/tuf/{name}", bytes_max)

    trusted = await store.refresh(fetch, model, datetime.now(UTC))
    newest = trusted.releases[0]
    manifest = _get(f"{url}/v1/artifacts/{newest.manifest_sha256}", newest.manifest_bytes)
    assert manifest is not None, "the release's manifest is not there"
    assert hashlib.sha256(manifest).hexdigest() == newest.manifest_sha256
    files = json.loads(manifest)["variants"]
    for variant in files:
        content = _get(f"{url}/v1/artifacts/{variant['file']['sha256']}", 1 << 24)
        assert content is not None, variant
        assert hashlib.sha256(content).hexdigest() == variant["file"]["sha256"]
    return {"url": url, "version": newest.version, "epoch": trusted.epoch, "files": len(files)}


async def _first(store: TrustStore, model: str, urls: list[str]) -> dict[str, object]:
    """Of the first registry that can be trusted; else why none can."""
    why = []
    for url in urls:
        try:
            return await _look(store, model, url)
        except HybridgeError as error:
            why.append(f"{type(error).__name__}: {error}")
    return {"why": why}


def main(folder: str, root: str) -> None:
    store = TrustStore(Path(folder), Path(root).read_bytes())
    print(json.dumps({"event": "ready"}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        found = asyncio.run(_first(store, asked["model"], asked["urls"]))
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
