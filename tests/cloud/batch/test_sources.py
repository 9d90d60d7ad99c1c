"""One contract over a folder, `file://`, memory and S3 (moto's server), and what a folder hides."""

import asyncio
import os
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import obstore
import pytest
from moto.server import ThreadedMotoServer
from obstore.exceptions import UnauthenticatedError
from obstore.store import MemoryStore, S3Store

from cloud.batch.folder_source import FolderSource
from cloud.batch.locate import locate
from cloud.batch.object_source import ObjectSource, _in_words
from cloud.batch.offline import Ended, Order, run
from cloud.batch.source import Source
from shared.errors import Malformed, NotTrusted, TooLarge, Unavailable, Unknown
from tests.cloud.batch.images import lines, tiny_bundle, write_inputs

CONTENTS = {"b.npy": b"bb", "a/one two.png": b"a" * 300, "a/größe%20#?.png": b"", "c": b"c"}


@dataclass
class Place:
    source: Source
    put: object

    def write(self, name: str, content: bytes) -> None:
        self.put(name, content)  # type: ignore[operator]


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture
def at_s3(s3: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in {
        "AWS_ENDPOINT_URL": s3, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_REGION": "us-east-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return s3


def bucket(endpoint: str, name: str) -> S3Store:
    call = urllib.request.Request(f"{endpoint}/{name}", method="PUT")
    with urllib.request.urlopen(call, timeout=10):
        pass
    return S3Store(
        name, endpoint=endpoint, access_key_id="k", secret_access_key="s", region="us-east-1",
        client_options={"allow_http": True},
    )  # fmt: skip


@pytest.fixture(params=["folder", "file-url", "memory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    def write(name: str, content: bytes) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)

    match request.param:
        case "folder":
            return Place(locate(str(tmp_path)), write)
        case "file-url":
            return Place(locate(tmp_path.as_uri()), write)
        case "memory":
            store = MemoryStore()
            return Place(ObjectSource("memory:///", store), lambda n, c: obstore.put(store, n, c))
    endpoint = request.getfixturevalue("at_s3")
    name = f"bucket-{abs(hash(tmp_path)):x}"
    at = bucket(endpoint, name)
    return Place(locate(f"s3://{name}/in"), lambda n, c: obstore.put(at, f"in/{n}", c))


def test_all_inputs_by_name_with_what_they_hold(place: Place) -> None:
    for name, content in CONTENTS.items():
        place.write(name, content)
    found = place.source.find()
    assert [one.name for one in found] == sorted(CONTENTS)
    assert {one.name: place.source.read(one) for one in found} == CONTENTS
    assert {one.name: one.size_bytes for one in found} == {n: len(c) for n, c in CONTENTS.items()}
    assert all(one.modified > 1_700_000_000 for one in found)


def test_size_and_tag_stay_until_the_content_changes(place: Place) -> None:
    place.write("x.npy", b"old")
    (before,) = place.source.find()
    assert place.source.find() == [before]
    place.write("x.npy", b"newer")  # of another size: a file system's clock may be too coarse
    (after,) = place.source.find()
    assert (after.size_bytes, after.tag) != (before.size_bytes, before.tag)


def test_what_changed_after_it_was_listed_is_not_read(place: Place) -> None:
    place.write("x.npy", b"old")
    (before,) = place.source.find()
    place.write("x.npy", b"new!")
    with pytest.raises(Malformed, match=r"x.npy: changed after it was listed"):
        place.source.read(before)


def test_nothing_there_is_an_empty_listing(place: Place) -> None:
    assert place.source.find() == []


def test_one_file(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"abc")
    source = locate(str(tmp_path / "x.npy"))
    (found,) = source.find()
    assert (found.name, source.read(found)) == ("x.npy", b"abc")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Unknown, match="no such file or folder"):
        locate(str(tmp_path / "nothing"))


@pytest.mark.parametrize("url", ["ftp://host/x", "http://host/x", "file://host/x", "s4://b/x"])
def test_urls_that_name_no_source(url: str) -> None:
    with pytest.raises(Malformed, match="inputs come from"):
        locate(url)


def test_a_store_that_is_away_is_said_so(monkeypatch: pytest.MonkeyPatch, at_s3: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    source = locate("s3://bucket/in")
    with pytest.raises(Unavailable, match="s3://bucket/in"):
        source.find()


def test_a_bucket_that_is_not_there(at_s3: str) -> None:
    with pytest.raises((Unknown, Unavailable), match="s3://no-such-bucket/in"):
        locate("s3://no-such-bucket/in").find()


def test_a_batch_over_s3(at_s3: str, tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    at = bucket(at_s3, "batch")
    for path in (tmp_path / "in").rglob("*.*"):
        obstore.put(at, f"in/{path.relative_to(tmp_path / 'in')}", path.read_bytes())

    def go(source: str, out: str, rows_max: int | None = None) -> Ended:
        what = Order(
            source=source, out=tmp_path / out, bundle=tiny_bundle(tmp_path), batch_rows=4,
            engine="onnxruntime", part_rows=10, rows_max=rows_max,
        )  # fmt: skip
        return asyncio.run(run(what, lambda _: None, asyncio.Event()))

    assert go("s3://batch/in", "from-s3", 20).how == "limited"
    assert go("s3://batch/in", "from-s3").how == "complete"
    go(str(tmp_path / "in"), "from-folder")
    assert lines(tmp_path / "from-s3") == lines(tmp_path / "from-folder")


def test_too_many_files(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}").touch()
    assert len(FolderSource(tmp_path, files_max=4).find()) == 4
    with pytest.raises(TooLarge, match="over 3 files"):
        FolderSource(tmp_path, files_max=3).find()


def test_too_many_objects() -> None:
    store = MemoryStore()
    for number in range(4):
        obstore.put(store, f"{number}", b"x")
    with pytest.raises(TooLarge, match="over 3 objects"):
        ObjectSource("memory:///", store, files_max=3).find()


def test_links_pipes_and_odd_names_are_named_and_not_opened(tmp_path: Path) -> None:
    (tmp_path / "good.npy").write_bytes(b"x")
    (tmp_path / "link.npy").symlink_to("/etc/hostname")
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / os.fsdecode(b"bad\xff.npy")).touch()
    (tmp_path / "new\nline.npy").write_bytes(b"y")
    found = {one.name: one.why_not for one in FolderSource(tmp_path).find()}
    assert found == {
        "good.npy": None,
        "new\nline.npy": None,
        "link.npy": "a link, which is not followed; put the file itself here",
        "loop": "a link, which is not followed; put the file itself here",
        "pipe": "neither a file nor a folder",
        "bad\\xff.npy": "its name is not UTF-8; rename it",
    }


def test_a_file_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"x")
    source = FolderSource(tmp_path)
    (found,) = source.find()
    (tmp_path / "x.npy").unlink()
    (tmp_path / "x.npy").symlink_to("/etc/hostname")
    with pytest.raises(Malformed, match=r"x.npy: cannot be read"):
        source.read(found)


def test_hidden_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / ".DS_Store").touch()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").touch()
    assert FolderSource(tmp_path).find() == []


def test_refused_credentials_are_no_passing_fault() -> None:
    assert isinstance(_in_words(UnauthenticatedError("x"), "s3://b"), NotTrusted)
