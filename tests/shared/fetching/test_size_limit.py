"""A file that may not grow (a quota, RLIMIT_FSIZE), in a process of its own."""

import subprocess
import sys
from pathlib import Path

from shared.fetching.partial import beside

_PROGRAM = """
import asyncio, os, resource, sys
from pathlib import Path
from shared.disk import NoRoom
from shared.fetching.session import open_session
from shared.fetching.settings import Server
from shared.fetching.transfer import fetch_file
from tests.shared.fetching.bad_server import bad_server

async def main():
    target = Path(sys.argv[1])
    async with bad_server() as server, open_session(Server(urls=(server.url,))) as session:
        url, sha256, size = server.offer(os.urandom(300_000))
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        try:
            await fetch_file(session, url, target, sha256=sha256, bytes=size)
        except NoRoom as error:
            print("refused:", error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        await fetch_file(session, url, target, sha256=sha256, bytes=size)
        print("then:", target.stat().st_size, server.seen[-1].range)

asyncio.run(main())
"""


def test_no_room_is_said_and_what_came_is_gone_on_from(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path / "file")],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert "refused:" in ran.stdout
    assert "free space on its disk" in ran.stdout
    assert "then: 300000 bytes=100000-" in ran.stdout
    assert not beside(tmp_path / "file", ".partial").exists()
