"""A near-line job over a topic: a real broker, the buffer, a window, answers on disk."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cloud.batch.counts import NearLineCounts
from cloud.batch.service import NearLineJobs
from cloud.batch.settings import BatchSettings
from cloud.broker.launch import BrokerAddress, broker_running
from cloud.broker.settings import BrokerSettings
from shared.mqtt.link import Delivery, Link
from shared.mqtt.settings import LinkSettings
from tests.brokers import Client
from tests.cloud.batch.images import lines, png
from tests.cloud.batch.serving import Serving, serving, until
from tests.tiny_bundle import sure_image

WINDOW_MINUTES = 0.02  # long enough for a disk that is slow to sync
PNGS = [png(sure_image(0)), png(sure_image(1)), png(sure_image(2))]


def jobs(at: Serving, address: BrokerAddress, folder: Path, **more: Any) -> NearLineJobs:
    def link_for(
        name: str, subscriptions: tuple[str, ...], on_delivery: Callable[[Delivery], None],
        on_down: Callable[[], None],
    ) -> Link:  # fmt: skip
        settings = LinkSettings(host=address.host, port=address.port, client_id=name)
        return Link(
            settings, subscriptions=subscriptions, on_delivery=on_delivery,
            on_up=lambda _kept: None, on_down=on_down,
        )  # fmt: skip

    job = {
        "name": "belt", "topic": "plant/+/image", "out": folder / "out", "model": "tiny-cloud",
        "every_minutes": WINDOW_MINUTES, **more,
    }  # fmt: skip
    settings = BatchSettings.model_validate({"near_line": [job]})
    return NearLineJobs(
        settings, folder / "state", at.pool.find, at.inference.answer, link_for,
        NearLineCounts(at.registry),
    )  # fmt: skip


@asynccontextmanager
async def running(folder: Path, **more: Any) -> AsyncGenerator[tuple[Serving, Client]]:
    settings = BrokerSettings(kind="embedded", state_dir=folder / "broker")
    async with broker_running(settings) as address, serving(folder) as at:
        near_line = jobs(at, address, folder, **more)
        task = asyncio.create_task(near_line.run())
        client = await asyncio.to_thread(Client, address, "camera")
        try:
            await until(lambda: near_line._links[0].up)
            yield at, client
        finally:
            await asyncio.to_thread(client.disconnect)
            near_line.drain()
            await task


def send(client: Client, topic: str, payload: bytes) -> None:
    client.paho.publish(topic, payload, 1)


def test_messages_become_answers(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as (at, client):
            for number, content in enumerate(PNGS):
                send(client, f"plant/{number}/image", content)
            send(client, "plant/3/image", b"no image")
            await until(lambda: at.count("inputs_total", job="belt", result="failed") == 1)
            await until(lambda: at.count("rows_total", job="belt") == 3)
            send(client, "plant/0/image", PNGS[1])
            await until(lambda: at.count("rows_total", job="belt") == 4)
            await until(lambda: at.count("buffered_messages", job="belt") == 0)

    asyncio.run(main())
    said = {(line["name"].rsplit("/", 1)[0], line["label"]) for line in lines(tmp_path / "out")}
    assert said == {
        ("plant/0/image", "class-1"), ("plant/1/image", "class-2"), ("plant/2/image", "class-0"),
        ("plant/0/image", "class-2"),
    }  # fmt: skip
    (errors,) = (tmp_path / "out").glob("window-*.errors.jsonl")
    assert '"name": "plant/3/image/' in errors.read_text()


def test_a_full_buffer_leaves_messages_with_the_broker_until_there_is_room(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, buffer_messages_max=2) as (at, client):
            for number in range(9):
                send(client, f"plant/{number}/image", PNGS[number % 3])
            await until(lambda: at.count("rows_total", job="belt") == 9)
            assert at.count("buffer_full_total", job="belt") >= 1
            assert at.count("messages_total", job="belt", result="kept") == 9

    asyncio.run(main())


def test_what_waits_for_a_window_is_shown_before_it_begins(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, every_minutes=1440) as (at, client):
            for number in (0, 1, 1):
                send(client, f"plant/{number}/image", PNGS[number])
            await until(lambda: at.count("messages_total", job="belt", result="copy") == 1)
            assert at.count("buffered_messages", job="belt") == 2

    asyncio.run(main())


def test_messages_that_can_never_be_kept_are_counted_and_acknowledged(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, message_bytes_max=200) as (at, client):
            send(client, "plant/0/image", bytes(201))
            send(client, "plant/0/image", b"")
            send(client, "plant/0/image", PNGS[0])
            await until(lambda: at.count("rows_total", job="belt") == 1)
            assert at.count("messages_total", job="belt", result="too_large") == 1
            assert at.count("messages_total", job="belt", result="empty") == 1

    asyncio.run(main())
