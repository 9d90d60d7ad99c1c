"""Publishes `$SYS/broker/...`, retained, every so often."""

import asyncio

from cloud.broker.codec.packets import Qos
from cloud.broker.operations.overview import Overview
from cloud.broker.operations.sys_topics import Loads, changed, step, topics
from cloud.broker.session.messages import Message
from cloud.broker.shell.server import Server

_QOS: Qos = 0


class SystemTopics:
    """Only what changed is published."""

    def __init__(self, server: Server, overview: Overview, interval_s: float) -> None:
        """Publish every `interval_s` seconds; 0: never."""
        self._server, self._overview, self._interval_s = server, overview, interval_s

    async def run(self) -> None:
        """Publish until cancelled."""
        if self._interval_s <= 0:
            return
        loop = asyncio.get_running_loop()
        loads, said = Loads(), dict[str, bytes]()
        while True:
            status = await self._overview.status()
            loads = step(loads, status)
            now_say = topics(status, loads)
            for topic, payload in changed(said, now_say).items():
                message = Message(topic, payload, _QOS, retain=True)
                self._server.router.publish(message, loop.time())
            said = now_say
            await asyncio.sleep(self._interval_s)
