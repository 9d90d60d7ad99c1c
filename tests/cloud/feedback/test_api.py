"""The store's routes over real HTTP, with keys of each role."""

import asyncio
import contextlib
import io
import json
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image
from prometheus_client import CollectorRegistry, Counter, Histogram

from cloud.api.about import Description
from cloud.api.checked import PathRules
from cloud.api.document_server import DocumentServer
from cloud.api.settings import DocumentApi
from cloud.feedback.api.data_sets import DataSetRoutes
from cloud.feedback.api.feedback import FeedbackRoutes
from cloud.feedback.api.images import png
from cloud.feedback.data_file import read_rows
from cloud.feedback.documents import DataSetSpec, DataSetVersion, FeedbackSample
from cloud.gateway.roles import GRANTS, Role, granted
from shared.errors import Malformed, TooLarge
from shared.wire.envelope import Payload
from tests.cloud.feedback.world import MODEL, NOW, World, row, sample_of, world

NAME = r"[a-z0-9][a-z0-9-]{0,63}"
PATHS = PathRules({
    "device": (r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", "a device"),
    "sample": (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "a sample's id"),
    "name": (NAME, "a name"),
    "number": (r"[1-9][0-9]{0,5}", "a number"),
})  # fmt: skip


class Client:
    """Calls the API from another thread than the server's."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def __call__(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        return await asyncio.to_thread(self._call, method, path, body)

    def _call(self, method: str, path: str, body: object) -> tuple[int, bytes]:
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, content, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()


def server_of(here: World, reader=lambda _: "") -> DocumentServer:
    counts = CollectorRegistry()

    def table(asking, _ending):
        yield from FeedbackRoutes(here.store, asking, lambda: NOW).routes()
        yield from DataSetRoutes(here.store, asking, lambda: NOW, reader).routes()

    limits = DocumentApi(port=0, json_bytes_max=100_000, bodies_bytes_max=1_000_000)
    return DocumentServer(
        limits, None, table, PATHS, Description("feedback", "its routes"),
        Histogram("s", "s", ["operation"], registry=counts),
        Counter("u", "u", registry=counts), counts,
    )  # fmt: skip


@pytest.fixture
def here(tmp_path) -> Iterator[World]:
    with world(f"sqlite:///{tmp_path / 'f.db'}", tmp_path) as found:
        found.write(*(
            row(n, device=f"cam-{n % 4}", label=n % 3, at=NOW + n) for n in range(40)
        ))  # fmt: skip
        yield found


def serve(here: World, test, reader=lambda _: "") -> None:
    async def main() -> None:
        async with server_of(here, reader).listening() as url:
            await test(Client(url))

    asyncio.run(main())


def test_samples_are_listed_by_pages(here):
    async def test(call: Client) -> None:
        status, body = await call("GET", "/v1/feedback/samples?device=cam-1&limit=6")
        first = json.loads(body)
        assert (status, len(first["samples"])) == (200, 6)
        FeedbackSample.model_validate_json(json.dumps(first["samples"][0]))
        _, body = await call(
            "GET", f"/v1/feedback/samples?device=cam-1&limit=6&after={first['next']}"
        )
        second = json.loads(body)
        assert (len(second["samples"]), second["next"]) == (4, None)
        _, body = await call("GET", "/v1/feedback/samples?unsure=0.6&disputed=true&unlabelled=true")
        assert json.loads(body) == {"samples": [], "next": None}

    serve(here, test)


@pytest.mark.parametrize(
    "query", ["since=yesterday", "unsure=2", "reason=boredom", "nonsense=1", "limit=0", "after=-1",
              "holdout=0.9", "label=x", "limit=1001", "device=a/b"],
)  # fmt: skip
def test_a_query_that_says_nothing_is_refused(here, query):
    async def test(call: Client) -> None:
        status, body = await call("GET", f"/v1/feedback/samples?{query}")
        assert status == 400, body

    serve(here, test)


def test_a_sample_is_seen_and_labelled(here):
    async def test(call: Client) -> None:
        path = f"/v1/feedback/samples/cam-1/{sample_of(1)}"
        status, body = await call("GET", path + "/tensor")
        assert np.load(io.BytesIO(body), allow_pickle=False).tolist() == [[1] * 4] * 4
        status, body = await call("GET", path + "/image")
        assert np.asarray(Image.open(io.BytesIO(body))).tolist() == [[1] * 4] * 4
        status, body = await call("PUT", path + "/label", {"label": 2, "comment": "blurred"})
        found = FeedbackSample.model_validate_json(body)
        assert (status, found.label, found.labels[0].by) == (200, 2, "anonymous")
        status, body = await call("PUT", path + "/label", {"label": 3})
        assert (status, b"has 3 classes" in body) == (400, True)
        assert (await call("PUT", path + "/label", {"label": -1}))[0] == 400
        assert (await call("DELETE", path + "/label"))[0] == 200
        assert (await call("DELETE", path + "/label"))[0] == 404
        assert (await call("GET", f"/v1/feedback/samples/cam-2/{sample_of(1)}"))[0] == 404
        assert (await call("GET", "/v1/feedback/samples/cam-2/1"))[0] == 400

    serve(here, test)


def test_accuracy_by_what_people_labelled_is_given(here):
    async def test(call: Client) -> None:
        status, answer = await call("GET", "/v1/feedback/accuracy?model=" + MODEL)
        assert (status, b"nobody labelled any" in answer) == (409, True)
        for n in range(10):
            here.store.label(f"cam-{n % 4}", sample_of(n), n % 3, "ada", NOW)
        edge = json.loads((await call("GET", "/v1/feedback/accuracy"))[1])
        cloud = json.loads(
            (await call("GET", "/v1/feedback/accuracy?of=cloud&until=1800000010"))[1]
        )
        assert (edge["estimate"], edge["labelled"], edge["sent"]) == (0.3, 10, 40)
        assert (cloud["estimate"], cloud["sent"], cloud["audits"]) == (1.0, 10, 0)
        assert cloud["low"] < 0.9
        assert (await call("GET", "/v1/feedback/accuracy?of=person"))[0] == 400

    serve(here, test)


def test_a_file_has_its_turn_until_the_last_of_it_is_sent(tmp_path):
    with world(f"sqlite:///{tmp_path / 'big.db'}", tmp_path / "big") as here:
        here.write(*(
            row(n, label=n % 3, payload=Payload("raw", "uint8", (1024, 1024), os.urandom(2**20)))
            for n in range(24)
        ))  # fmt: skip
        made = here.store.build("big", DataSetSpec(model=MODEL), "ada", NOW)
        path = "/v1/data-sets/big/1/file"

        async def test(call: Client) -> None:
            with contextlib.ExitStack() as held:
                for _ in range(3):  # of four turns one is for others
                    reader = await asyncio.to_thread(unread, call.url, path)
                    held.callback(reader.close)
                status, answer = await call("GET", path)
                assert (status, b"3 files are under way" in answer) == (429, True)
            while (found := await call("GET", path))[0] == 429:  # each look is a round trip
                pass
            assert len(read_rows(found[1], "it", made.sha256)) == 24

        serve(here, test)


def test_a_job_that_came_before_the_files_turn_to_go_keeps_it(here):
    def reader(_sha256: str) -> str:
        """A job is there from when no other file is at work."""
        return "job j-1" if here.store._files.locked() else ""

    async def test(call: Client) -> None:
        await call("POST", "/v1/data-sets/mine", {"model": MODEL})
        status, answer = await call("DELETE", "/v1/data-sets/mine/1")
        assert (status, b"job j-1 reads it" in answer) == (409, True)
        assert (await call("GET", "/v1/data-sets/mine/1/file"))[0] == 200

    serve(here, test, reader)


def unread(url: str, path: str) -> socket.socket:
    """A connection on which that was asked for, of whose answer the head alone is read."""
    where = urlsplit(url)
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    found.settimeout(30)
    found.connect((where.hostname, where.port))
    found.sendall(f"GET {path} HTTP/1.1\r\nHost: it\r\n\r\n".encode())
    assert found.recv(12) == b"HTTP/1.1 200"
    return found


def test_a_data_set_is_planned_made_fetched_and_deleted(here):
    async def test(call: Client) -> None:
        spec = {"model": MODEL, "rows_max": 30}
        status, body = await call("POST", "/v1/data-sets/plan", spec)
        plan = json.loads(body)
        assert (status, plan["rows"], plan["refused"]) == (200, 30, "")
        status, body = await call("POST", "/v1/data-sets/mine", spec)
        made = DataSetVersion.model_validate_json(body)
        assert (status, made.name, made.number, made.rows) == (200, "mine", 1, 30)
        assert json.loads((await call("GET", "/v1/data-sets"))[1])["data_sets"][0]["number"] == 1
        assert (await call("GET", "/v1/data-sets/mine"))[1] == body
        assert (await call("GET", "/v1/data-sets/mine/1"))[1] == body
        status, file = await call("GET", "/v1/data-sets/mine/1/file")
        assert len(read_rows(file, "it", made.sha256)) == 30
        assert (await call("DELETE", "/v1/data-sets/mine/1?comment=old"))[0] == 204
        assert (await call("GET", "/v1/data-sets/mine/1/file"))[0] == 404
        status, body = await call("POST", "/v1/data-sets/mine", {"model": "other"})
        assert (status, b"no sample that may be taken matches" in body) == (409, True)
        status, body = await call("POST", "/v1/data-sets/plan", {"model": "other"})
        assert "no sample" in json.loads(body)["refused"]
        assert (await call("POST", "/v1/data-sets/mine", {"model": MODEL, "rows_max": 0}))[0] == 400

    serve(here, test)


def test_data_sets_are_listed_without_the_devices_that_they_name(here):
    async def test(call: Client) -> None:
        devices = ["cam-0", "cam-1", "cam-3"]
        _, body = await call("POST", "/v1/data-sets/mine", {"model": MODEL, "devices": devices})
        await call("POST", "/v1/data-sets/others", {"model": MODEL})
        mine, others = json.loads((await call("GET", "/v1/data-sets"))[1])["data_sets"]
        assert (mine["devices_named"], mine["spec"]["devices"]) == (3, [])
        assert (others["devices_named"], mine["devices"]) == (0, 3)
        assert json.loads(body)["spec"]["devices"] == devices
        assert (await call("GET", "/v1/data-sets/mine/1"))[1] == body

    serve(here, test)


def test_a_deletion_goes_on_alone_though_who_asked_for_it_has_left(here):
    async def main() -> None:
        server = server_of(here)
        async with server.listening() as url, asyncio.timeout(20):
            call, port = Client(url), int(url.rpartition(":")[2])
            wanted = {"device": "cam-1", "until": NOW + 20, "comment": "x"}
            with (
                here.store._building._turn
            ):  # a deletion ends after the data set that is being made
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                body = json.dumps(wanted).encode()
                head = (
                    f"POST /v1/feedback/delete HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}"
                )
                writer.write(head.encode() + b"\r\n\r\n" + body)
                while json.loads((await call("GET", "/v1/feedback"))[1])["rows"] != 35:
                    pass
                writer.close()
                await server.until_quiet()
                status, answer = await call("POST", "/v1/feedback/delete", wanted)
                assert (status, b"one is at a time" in answer) == (429, True)
            while (await call("POST", "/v1/feedback/delete", wanted))[0] == 429:
                pass

    asyncio.run(main())


def test_samples_are_deleted_by_device_and_time(here):
    async def test(call: Client) -> None:
        assert (await call("POST", "/v1/feedback/delete", {"comment": "all"}))[0] == 400
        status, body = await call(
            "POST", "/v1/feedback/delete", {"device": "cam-1", "until": NOW + 20, "comment": "x"}
        )
        assert (status, json.loads(body)["rows"]) == (200, 5)
        assert json.loads((await call("GET", "/v1/feedback"))[1])["rows"] == 35

    serve(here, test)


def test_who_may_do_what(here):
    """Nobody sees a sample who is no labeller; only an operator deletes."""
    routes = {route.operation_id: route.role for route in server_of(here).routes}
    seeing = {name for name in routes if "samples" in name or name.endswith("file")}
    assert len(seeing) == 7
    for role in GRANTS:
        may = {name for name, needed in routes.items() if needed in granted([role])}
        assert bool(may & seeing) == (role in {Role.LABELLER, Role.TRAINER}), role
        deletes = {"post_v1_feedback_delete", "delete_v1_data-sets_name_number"}
        assert bool(may & deletes) == (role is Role.OPERATOR), role


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 1), (1, 6, 5), (6, 5, 3), (3, 6, 5)])
def test_images_of_every_layout(shape):
    tensor = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    drawn = np.asarray(Image.open(io.BytesIO(png(tensor, 30))))
    assert drawn.shape == ((6, 5, 3) if 3 in shape else (6, 5))
    assert drawn.reshape(-1)[0] == 0


def test_what_is_no_image_or_too_large_is_refused():
    with pytest.raises(Malformed, match="fetch it as a tensor"):
        png(np.zeros(7, np.uint8), 100)
    with pytest.raises(TooLarge, match="30 pixels"):
        png(np.zeros((6, 5), np.uint8), 29)


def test_a_payload_that_does_not_decode_is_said(here):
    here.write(row(90, payload=Payload("grey4", "uint8", (4, 4), b"x", "0123456789abcdef")))

    async def test(call: Client) -> None:
        status, body = await call("GET", f"/v1/feedback/samples/cam-1/{sample_of(90)}/image")
        assert (status, b"dictionary" in body) == (404, True)

    serve(here, test)
