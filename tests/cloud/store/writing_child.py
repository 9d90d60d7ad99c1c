"""A process that writes rows and says which are committed, until it is killed: see test_kill."""

import asyncio
import sys

from cloud.store.feedback import Bounds, FeedbackTable
from cloud.store.writer import FeedbackWriter
from tests.cloud.samples import feedback


async def main(url: str) -> None:
    table = FeedbackTable(url, Bounds(rows_max=10**6, bytes_max=10**9))
    table.open()
    writer = FeedbackWriter(table, pending_max=1000)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(writer.run())
        for number in range(10**6):
            futures = [writer.put(feedback(number * 10 + n)) for n in range(10)]
            await asyncio.gather(*futures)
            print(number, flush=True)


asyncio.run(main(sys.argv[1]))
