"""One contract of the artifact store, over a directory and over S3 (moto's server)."""

import asyncio
import hashlib
import os
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import obstore
import pytest
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer
from obstore.store import S3Store

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.artifacts.blobs import key
from cloud.registry.artifacts.collection import Collected
from cloud.registry.artifacts.settings import ArtifactSettings
from shared.errors import (
    Conflict,
    Malformed,
    NotTrusted,
    TooLarge,
    Unavailable,
    Unknown,
)

DAY = 86_400.0
CONTENT = bytes(range(256)) * 1000
NOWHERE = "0" * 64


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


SHA = sha(CONTENT)


@dataclass
class Place:
    """`spoil` changes what is stored; `age` makes it so many seconds older."""

    artifacts: Artifacts
    spoil: Callable[[str, bytes], None]
    age: Callable[[str, float], None]
    contents: Callable[[], dict[str, bytes]]
    again: Callable[[], Artifacts]

    @property
    def names(self) -> set[str]:
        return {name.rpartition("/")[2] for name in self.contents() if name.startswith("sha256/")}


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture(params=["directory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    if request.param == "directory":
        return in_directory(tmp_path)
    endpoint = request.getfixturevalue("s3")
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_REGION": "us-east-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return in_bucket(endpoint, f"bucket-{abs(hash(tmp_path)):x}", tmp_path)


def in_directory(folder: Path) -> Place:
    root = folder / "artifacts"

    def age(sha256: str, seconds: float) -> None:
        found = (root / key(sha256)).stat().st_mtime
        os.utime(root / key(sha256), (found - seconds, found - seconds))

    def contents() -> dict[str, bytes]:
        files = [path for path in root.rglob("*") if path.is_file()]
        return {str(path.relative_to(root)): path.read_bytes() for path in files}

    return Place(
        Artifacts(ArtifactSettings(), folder),
        lambda sha256, content: (root / key(sha256)).write_bytes(content) and None,
        age, contents, lambda: Artifacts(ArtifactSettings(), folder),
    )  # fmt: skip


def in_bucket(endpoint: str, name: str, folder: Path) -> Place:
    call = urllib.request.Request(f"{endpoint}/{name}", method="PUT")
    with urllib.request.urlopen(call, timeout=10):
        pass
    store = S3Store(
        name, endpoint=endpoint, access_key_id="k", secret_access_key="s", region="us-east-1",
        prefix="registry", client_options={"allow_http": True},
    )  # fmt: skip
    settings = ArtifactSettings(url=f"s3://{name}/registry")

    def age(sha256: str, seconds: float) -> None:
        keys = s3_backends["123456789012"]["aws"].buckets[name].keys
        for path in (key(sha256), f"renewed/{sha256}"):
            if (found := keys.get(f"registry/{path}")) is not None:
                found.last_modified -= timedelta(seconds=seconds)

    def contents() -> dict[str, bytes]:
        paths = [one["path"] for page in obstore.list(store) for one in page]
        found = {path: bytes(obstore.get(store, path).bytes()) for path in paths}
        staged = [path for path in (folder / "uploads").glob("*") if path.is_file()]
        return found | {f"uploads/{path.name}": path.read_bytes() for path in staged}

    return Place(
        Artifacts(settings, folder),
        lambda sha256, content: obstore.put(store, key(sha256), content) and None,
        age, contents, lambda: Artifacts(settings, folder),
    )  # fmt: skip


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


async def pieces(content: bytes, size: int = 10_000) -> AsyncIterator[bytes]:
    for at in range(0, len(content), size):
        yield content[at : at + size]


async def cut_after(content: bytes) -> AsyncIterator[bytes]:
    yield content
    raise ConnectionResetError


async def whole(artifacts: Artifacts, sha256: str, start: int = 0, end: int | None = None) -> bytes:
    reader = await artifacts.open(sha256)
    return b"".join([part async for part in reader.ranges(start, end)])


def collected(
    place: Place, needed: set[str], after_s: float, *, dry_run: bool = False
) -> Collected:
    work = place.artifacts.collect(needed, dry_run=dry_run, now=time.time() + after_s)
    found: Collected = run(work)
    return found


def test_what_is_put_can_be_read_in_whole_and_in_part(place: Place) -> None:
    assert run(place.artifacts.put_bytes(CONTENT)) == SHA
    assert run(place.artifacts.read(SHA, len(CONTENT))) == CONTENT
    assert run(place.artifacts.size(SHA)) == len(CONTENT)
    assert run(whole(place.artifacts, SHA)) == CONTENT
    assert run(whole(place.artifacts, SHA, 100, 200_000)) == CONTENT[100:200_000]
    assert run(whole(place.artifacts, SHA, 7, 7)) == b""


def test_it_outlives_the_process(place: Place) -> None:
    run(place.artifacts.put_bytes(CONTENT))
    assert run(place.again().read(SHA, len(CONTENT))) == CONTENT


def test_nothing_is_an_artifact_too(place: Place) -> None:
    assert run(place.artifacts.uploads.append(sha(b""), 0, 0, pieces(b""))) == 0
    assert run(place.artifacts.read(sha(b""), 0)) == b""
    assert run(whole(place.artifacts, sha(b""))) == b""


def test_the_same_content_is_stored_once(place: Place) -> None:
    run(place.artifacts.put_bytes(CONTENT))
    run(place.artifacts.put_bytes(CONTENT))
    assert run(place.artifacts.uploads.append(SHA, len(CONTENT), 0, cut_after(b""))) == len(CONTENT)
    assert place.names == {SHA}


def test_what_is_not_here(place: Place) -> None:
    for work in (
        place.artifacts.size(NOWHERE),
        place.artifacts.open(NOWHERE),
        place.artifacts.read(NOWHERE, 10),
        place.artifacts.verify(NOWHERE),
    ):
        with pytest.raises(Unknown, match="no artifact 0000"):
            run(work)
    assert run(place.artifacts.has([NOWHERE])) == set()


@pytest.mark.parametrize(
    "name",
    ["", "x", "../../../etc/passwd", "A" * 64, "a" * 63, "a" * 65, "a" * 64 + "\n", "a/" * 5000],
)
def test_names_that_are_no_hash(place: Place, name: str) -> None:
    for work in (
        place.artifacts.has([name]),
        place.artifacts.size(name),
        place.artifacts.open(name),
        place.artifacts.read(name, 10),
        place.artifacts.verify(name),
        place.artifacts.uploads.offset(name),
        place.artifacts.uploads.append(name, 10, 0, pieces(b"")),
    ):
        with pytest.raises(Malformed, match="is no SHA-256"):
            run(work)


def test_those_that_are_here(place: Place) -> None:
    for number in range(20):
        run(place.artifacts.put_bytes(b"%d" % number))
    asked = [sha(b"%d" % number) for number in range(10, 30)]
    assert run(place.artifacts.has(asked)) == set(asked[:10])
    assert run(place.artifacts.has([])) == set()
    assert run(place.artifacts.stored()) == {sha(b"%d" % number) for number in range(20)}


def test_ranges_that_it_does_not_have(place: Place) -> None:
    run(place.artifacts.put_bytes(CONTENT))
    for start, end in ((-1, 5), (5, 4), (0, len(CONTENT) + 1)):
        with pytest.raises(Malformed, match="no such range"):
            run(whole(place.artifacts, SHA, start, end))


def test_read_is_bounded(place: Place) -> None:
    run(place.artifacts.put_bytes(CONTENT))
    with pytest.raises(TooLarge, match=f"has {len(CONTENT)} bytes"):
        run(place.artifacts.read(SHA, len(CONTENT) - 1))


def test_an_upload(place: Place) -> None:
    large = CONTENT * 25  # over the size from which an object goes up in parts
    assert run(
        place.artifacts.uploads.append(sha(large), len(large), 0, pieces(large, 65_536))
    ) == len(large)
    assert run(place.artifacts.read(sha(large), len(large))) == large
    assert set(place.contents()) == {key(sha(large))}


def test_an_upload_in_two_parts(place: Place) -> None:
    uploads = place.artifacts.uploads
    assert run(uploads.offset(SHA)) is None
    assert run(uploads.append(SHA, len(CONTENT), 0, pieces(CONTENT[:100_000]))) == 100_000
    assert run(uploads.offset(SHA)) == 100_000
    assert run(place.artifacts.has([SHA])) == set()
    assert run(uploads.append(SHA, len(CONTENT), 100_000, pieces(CONTENT[100_000:]))) == len(
        CONTENT
    )
    assert run(place.artifacts.read(SHA, len(CONTENT))) == CONTENT
    assert run(uploads.offset(SHA)) is None


def test_an_upload_that_another_process_goes_on_with(place: Place) -> None:
    run(place.artifacts.uploads.append(SHA, len(CONTENT), 0, pieces(CONTENT[:70_001])))
    other = place.again()
    assert run(other.uploads.offset(SHA)) == 70_001
    assert run(other.uploads.append(SHA, len(CONTENT), 70_001, pieces(CONTENT[70_001:]))) == len(
        CONTENT
    )
    assert run(other.read(SHA, len(CONTENT))) == CONTENT


def test_a_connection_that_breaks_keeps_what_came(place: Place) -> None:
    large = CONTENT * 12
    with pytest.raises(ConnectionResetError):
        run(place.artifacts.uploads.append(sha(large), len(large), 0, cut_after(large[:2_500_000])))
    at = run(place.artifacts.uploads.offset(sha(large)))
    assert at == 2_500_000
    rest = pieces(large[at:])
    assert run(place.artifacts.uploads.append(sha(large), len(large), at, rest)) == len(large)
    assert run(place.artifacts.read(sha(large), len(large))) == large


@pytest.mark.parametrize("offset", [0, 49_999, 50_001, len(CONTENT)])
def test_another_offset_than_it_stands_at(place: Place, offset: int) -> None:
    uploads = place.artifacts.uploads
    run(uploads.append(SHA, len(CONTENT), 0, pieces(CONTENT[:50_000])))
    with pytest.raises(Conflict, match=f"stands at 50000 bytes, not {offset}"):
        run(uploads.append(SHA, len(CONTENT), offset, pieces(CONTENT[offset:])))
    assert run(uploads.offset(SHA)) == 50_000


def test_another_hash_than_it_was_sent_under(place: Place) -> None:
    uploads = place.artifacts.uploads
    with pytest.raises(NotTrusted, match="what was sent has sha256"):
        run(uploads.append(SHA, len(CONTENT), 0, pieces(b"?" + CONTENT[1:])))
    assert place.contents() == {}
    assert run(uploads.append(SHA, len(CONTENT), 0, pieces(CONTENT))) == len(CONTENT)


def test_more_than_it_said(place: Place) -> None:
    large = CONTENT * 12
    for size in (len(large) - 1, 0):
        with pytest.raises(TooLarge, match="more bytes than it said"):
            run(place.artifacts.uploads.append(SHA, size, 0, pieces(large)))
        assert place.contents() == {}


def test_endlessly_more_than_it_said(place: Place) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for asked in range(10):
            assert asked < 3
            yield CONTENT

    with pytest.raises(TooLarge, match="more bytes than it said"):
        run(place.artifacts.uploads.append(SHA, 2 * len(CONTENT), 0, endless()))


def test_less_than_it_said_is_not_seen(place: Place) -> None:
    assert run(place.artifacts.uploads.append(SHA, len(CONTENT) + 1, 0, pieces(CONTENT))) == len(
        CONTENT
    )
    assert run(place.artifacts.has([SHA])) == set()
    assert place.names == set()


@pytest.mark.parametrize(("total", "offset"), [(-1, 0), (10, -1), (10, 11)])
def test_sizes_that_make_no_sense(place: Place, total: int, offset: int) -> None:
    with pytest.raises(Malformed, match="no such offset"):
        run(place.artifacts.uploads.append(SHA, total, offset, pieces(b"")))


def test_an_artifact_that_is_here_under_another_size(place: Place) -> None:
    run(place.artifacts.put_bytes(CONTENT))
    with pytest.raises(Malformed, match=f"has {len(CONTENT)} bytes, not 5"):
        run(place.artifacts.uploads.append(SHA, 5, 0, pieces(b"12345")))


def test_one_writer_at_a_time(place: Place) -> None:
    async def go() -> None:
        halfway, on = asyncio.Event(), asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            yield CONTENT[:5]
            halfway.set()
            await on.wait()
            yield CONTENT[5:]

        first = asyncio.create_task(place.artifacts.uploads.append(SHA, len(CONTENT), 0, slowly()))
        await halfway.wait()
        for other in (place.artifacts, place.again()):  # another process, as far as files tell
            for size in (len(CONTENT), len(CONTENT) - 1):
                with pytest.raises(Conflict, match="somebody else is sending it"):
                    await other.uploads.append(SHA, size, 0, pieces(CONTENT))
        on.set()
        assert await first == len(CONTENT)

    run(go())
    assert set(place.contents()) == {key(SHA)}


def test_a_caller_that_goes_away_leaves_the_upload_to_the_next(place: Place) -> None:
    async def go() -> None:
        halfway = asyncio.Event()

        async def never_ends() -> AsyncIterator[bytes]:
            yield CONTENT[:5]
            halfway.set()
            await asyncio.Event().wait()

        first = asyncio.create_task(
            place.artifacts.uploads.append(SHA, len(CONTENT), 0, never_ends())
        )
        await halfway.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        at = await place.artifacts.uploads.offset(SHA) or 0
        rest = pieces(CONTENT[at:])
        assert await place.artifacts.uploads.append(SHA, len(CONTENT), at, rest) == len(CONTENT)

    run(go())


def test_a_flipped_bit_is_found_by_reading(place: Place) -> None:
    run(place.artifacts.put_bytes(CONTENT))
    place.spoil(SHA, CONTENT[:-1] + b"\xfe")
    with pytest.raises(NotTrusted, match="is corrupt, and was set aside; push it again"):
        run(place.artifacts.read(SHA, len(CONTENT)))
    assert set(place.contents()) == {f"corrupt/{SHA}"}


def test_a_flipped_bit_is_found_by_scrubbing_and_the_next_push_mends_it(place: Place) -> None:
    run(place.artifacts.put_bytes(CONTENT))
    run(place.artifacts.put_bytes(b"good"))
    assert run(place.artifacts.verify(SHA))
    place.spoil(SHA, CONTENT[:-1] + b"\xfe")
    found = run(place.artifacts.scrub())
    assert (found.checked, found.bytes, found.corrupt) == (2, len(CONTENT) + 4, (SHA,))
    assert run(place.artifacts.has([SHA])) == set()
    with pytest.raises(Unknown):
        run(place.artifacts.open(SHA))
    run(place.artifacts.put_bytes(CONTENT))
    assert run(place.artifacts.scrub()).corrupt == ()


def test_a_file_that_has_another_size_than_the_catalog_says(place: Place) -> None:
    run(place.artifacts.put_bytes(CONTENT))
    assert run(place.artifacts.open(SHA, len(CONTENT))).bytes == len(CONTENT)
    place.spoil(SHA, CONTENT[:-1])
    with pytest.raises(NotTrusted, match="set aside"):
        run(place.artifacts.open(SHA, len(CONTENT)))
    assert run(place.artifacts.has([SHA])) == set()


def test_a_file_that_shrinks_while_it_is_read(place: Place) -> None:
    async def go() -> None:
        reader = await place.artifacts.open(SHA)
        place.spoil(SHA, CONTENT[:1000])
        async for _ in reader.ranges():
            pass

    run(place.artifacts.put_bytes(CONTENT))
    with pytest.raises((NotTrusted, Unavailable)):
        run(go())


def test_what_nothing_needs_goes_when_its_grace_is_over(place: Place) -> None:
    for content in (b"needed", b"old", b"other"):
        run(place.artifacts.put_bytes(content))
    needed = {sha(b"needed")}
    assert collected(place, needed, DAY - 60).removed == ()
    found = collected(place, needed, DAY + 60)
    assert {one.sha256 for one in found.removed} == {sha(b"old"), sha(b"other")}
    assert (found.kept, found.young, found.busy, found.freed_bytes) == (1, 0, 0, 8)
    assert {name for name in place.contents() if not name.startswith("renewed/")} == {
        key(sha(b"needed"))
    }


def test_a_dry_run_removes_nothing(place: Place) -> None:
    run(place.artifacts.put_bytes(b"old"))
    run(place.artifacts.uploads.append(SHA, len(CONTENT), 0, pieces(b"begin")))
    found = collected(place, set(), DAY + 60, dry_run=True)
    assert [one.sha256 for one in found.removed] == [sha(b"old")]
    assert [one.sha256 for one in found.uploads] == [SHA]
    assert found.dry_run
    assert place.names == {sha(b"old")}
    assert run(place.artifacts.uploads.offset(SHA)) == 5


def test_what_is_uploaded_and_not_yet_registered_stays(place: Place) -> None:
    run(place.artifacts.uploads.append(SHA, len(CONTENT), 0, pieces(CONTENT)))
    found = collected(place, set(), 0)
    assert (found.removed, found.young) == ((), 1)
    assert place.names == {SHA}


def test_what_somebody_asked_about_is_young_again(place: Place) -> None:
    """Whoever pushes asks first, and then does not send what is here."""
    for mark, ask in {
        b"has": lambda: place.artifacts.has([sha(b"has")]),
        b"put": lambda: place.artifacts.put_bytes(b"put"),
        b"sent": lambda: place.artifacts.uploads.append(sha(b"sent"), 4, 0, pieces(b"")),
    }.items():
        run(place.artifacts.put_bytes(mark))
        place.age(sha(mark), 2 * DAY)
        assert [one.sha256 for one in collected(place, set(), 0, dry_run=True).removed] == [
            sha(mark)
        ]
        run(ask())
        assert collected(place, set(), 0).removed == ()
    assert place.names == {sha(b"has"), sha(b"put"), sha(b"sent")}


def test_listing_makes_nothing_young(place: Place) -> None:
    run(place.artifacts.put_bytes(CONTENT))
    place.age(SHA, 2 * DAY)
    assert run(place.artifacts.stored()) == {SHA}
    assert len(collected(place, set(), 0).removed) == 1


def test_what_is_asked_about_between_listing_and_removal_stays(place: Place) -> None:
    run(place.artifacts.put_bytes(CONTENT))
    place.age(SHA, 2 * DAY)
    blobs = place.artifacts._blobs
    listed = list(blobs.walk())

    class Racing:
        def __getattr__(self, name: str) -> object:
            return getattr(blobs, name)

        def walk(self) -> Iterator[object]:
            for stored in listed:
                assert run_in_thread(place.artifacts.has([stored.sha256])) == {stored.sha256}
                yield stored

    place.artifacts._blobs = Racing()  # type: ignore[assignment]
    found = collected(place, set(), 0)
    assert (found.removed, found.young) == ((), 1)
    assert place.names == {SHA}


def run_in_thread(work: Coroutine[Any, Any, Any]) -> Any:
    """Of a caller while the collection's thread waits."""
    return asyncio.run(work)


def test_what_somebody_is_storing_just_now_stays(place: Place) -> None:
    run(place.artifacts.put_bytes(CONTENT))
    place.age(SHA, 2 * DAY)
    with place.artifacts._locks.keep(SHA):
        found = collected(place, set(), 0)
    assert (found.removed, found.busy) == ((), 1)
    assert place.names == {SHA}


def test_uploads_that_nobody_went_on_with_are_dropped(place: Place) -> None:
    run(place.artifacts.uploads.append(SHA, len(CONTENT), 0, pieces(CONTENT[:50])))
    assert collected(place, set(), DAY - 60).uploads == ()
    (dropped,) = collected(place, set(), DAY + 60).uploads
    assert (dropped.sha256, dropped.bytes, dropped.total_bytes) == (SHA, 50, len(CONTENT))
    assert place.contents() == {}
    assert run(place.artifacts.uploads.append(SHA, len(CONTENT), 0, pieces(CONTENT))) == len(
        CONTENT
    )


def test_an_upload_that_goes_on_is_not_dropped(place: Place) -> None:
    async def go() -> None:
        async def meanwhile() -> AsyncIterator[bytes]:
            yield CONTENT[:5]
            found = await place.artifacts.collect(set(), dry_run=False, now=time.time() + 2 * DAY)
            assert found.uploads == ()
            yield CONTENT[5:]

        size = len(CONTENT)
        assert await place.artifacts.uploads.append(SHA, size, 0, meanwhile()) == size

    run(go())


def test_a_clock_that_went_back_removes_nothing(place: Place) -> None:
    run(place.artifacts.put_bytes(CONTENT))
    assert collected(place, set(), -2 * DAY).young == 1


def test_renewal_is_of_now(place: Place) -> None:
    run(place.artifacts.put_bytes(CONTENT))
    run(place.artifacts.has([SHA]))
    (stored,) = place.artifacts._blobs.walk()
    now = datetime.now(UTC).timestamp()
    assert abs(stored.renewed_at - now) < 60
    assert stored == place.artifacts._blobs.stat(SHA)


def test_a_store_that_is_there_is_said_to_be(place: Place) -> None:
    run(place.artifacts.check())


@pytest.mark.parametrize("broken", ["away", "no bucket"])
def test_a_store_that_is_away(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    place = in_bucket(s3, f"away-{broken[:2]}", tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9" if broken == "away" else s3)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    url = f"s3://away-{broken[:2]}/x" if broken == "away" else "s3://no-such-bucket/x"
    artifacts = Artifacts(ArtifactSettings(url=url), tmp_path)
    for work in (artifacts.check(), artifacts.put_bytes(b"x")):
        with pytest.raises(Unavailable, match=url):
            run(work)
    assert place.contents() == {}


def test_a_store_that_goes_away_at_the_end_of_an_upload(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came is kept: only the move is made again."""
    for name, value in (("ENDPOINT_URL", s3), ("ACCESS_KEY_ID", "k"), ("SECRET_ACCESS_KEY", "s")):
        monkeypatch.setenv(f"AWS_{name}", value)
    place = in_bucket(s3, "goes-away", tmp_path)
    buckets = s3_backends["123456789012"]["aws"].buckets

    async def until_it_goes() -> AsyncIterator[bytes]:
        yield CONTENT
        gone.append(buckets.pop("goes-away"))

    gone: list[Any] = []
    with pytest.raises(Unavailable, match="s3://goes-away"):
        run(place.artifacts.uploads.append(SHA, len(CONTENT), 0, until_it_goes()))
    buckets["goes-away"] = gone[0]
    assert run(place.artifacts.uploads.offset(SHA)) == len(CONTENT)
    size = len(CONTENT)
    assert run(place.artifacts.uploads.append(SHA, size, size, pieces(b""))) == size
    assert run(place.artifacts.read(SHA, size)) == CONTENT
    assert set(place.contents()) == {key(SHA)}
