"""What the device is doing: a JSON status for people and tools, and Prometheus metrics."""

from collections.abc import Mapping, Sequence
from typing import Protocol, get_args

from aiohttp import web

from edge.answers import Answering
from edge.routing.novelty import Seen
from edge.routing.standing import Level
from edge.telemetry.counters import Counters
from shared import __version__
from shared.ids import DeviceId

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Inspectable(Protocol):
    """What the agent shows of itself; each member is cheap and safe on the event loop."""

    @property
    def device_id(self) -> DeviceId: ...

    @property
    def engine(self) -> str:
        """The variant in use, as `Variant.key` says it: "onnxruntime/int8"."""
        ...

    @property
    def link_up(self) -> bool: ...

    @property
    def outbox_depth(self) -> tuple[int, int]:
        """Samples and bytes that wait for their answer."""
        ...

    def ledger_counts(self) -> Mapping[str, int]:
        """Samples given up, by reason, since the state directory was made."""
        ...

    def novelty(self) -> Seen | None:
        """How far inputs are from the model's reference; None where nobody looks."""
        ...

    def counters(self) -> Mapping[str, int]:
        """Counts by name since the process started."""
        ...


class StatusRoutes:
    def __init__(self, answering: Answering, inspectable: Inspectable, requests: Counters) -> None:
        self._answering, self._inspectable, self._requests = answering, inspectable, requests

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get("/v1/status", self._status)
        router.add_get("/metrics", self._metrics)

    async def _status(self, _: web.Request) -> web.Response:
        agent, manifest = self._inspectable, self._answering.manifest
        samples, payload_bytes = agent.outbox_depth
        seen = agent.novelty()
        return web.json_response(
            {
                "device": agent.device_id,
                "software": __version__,
                "ready": self._answering.ready,
                "model": manifest.name,
                "model_version": manifest.version,
                "engine": agent.engine,
                "link_up": agent.link_up,
                "outbox": {"samples": samples, "bytes": payload_bytes},
                "novelty": None if seen is None else seen.fields(),
                "ledger": dict(agent.ledger_counts()),
                "counters": {**agent.counters(), **self._requests.snapshot()},
            }
        )

    async def _metrics(self, _: web.Request) -> web.Response:
        agent, manifest = self._inspectable, self._answering.manifest
        samples, payload_bytes = agent.outbox_depth
        model = {"model": manifest.name, "version": manifest.version, "engine": agent.engine}
        counts = {**agent.counters(), **self._requests.snapshot()}
        text = "".join(
            [
                _family("info", "gauge", "What runs here.", [(model, 1)]),
                _family("ready", "gauge", "1: answers.", [({}, int(self._answering.ready))]),
                _family("link_up", "gauge", "1: broker reached.", [({}, int(agent.link_up))]),
                _family("outbox_samples", "gauge", "Escalations without answer.", [({}, samples)]),
                _family("outbox_bytes", "gauge", "Their bytes.", [({}, payload_bytes)]),
                *_novelty(agent.novelty()),
                _family(
                    "given_up_total", "counter", "Samples in the loss ledger, by reason.",
                    [({"reason": reason}, n) for reason, n in agent.ledger_counts().items()],
                ),
                _family(
                    "events_total", "counter", "Counts since the process started, by name.",
                    [({"event": name}, n) for name, n in counts.items()],
                ),
            ]
        )  # fmt: skip
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})


def _novelty(seen: Seen | None) -> list[str]:
    if seen is None:
        return []
    levels = [({"level": level}, int(level == seen.level)) for level in get_args(Level)]
    return [
        _family("novelty", "gauge", "1: inputs are this far from known ones.", levels),
        _family("novelty_score", "gauge", "Over 1.5: novel.", [({}, round(seen.score, 3))]),
        _family("audit_share", "gauge", "Of confident samples.", [({}, seen.audit_share)]),
    ]


def _family(
    name: str, kind: str, words: str, samples: Sequence[tuple[dict[str, str], float]]
) -> str:
    """One metric in Prometheus's text format 0.0.4, by hand: devices carry no client for it."""
    full = f"hybridge_edge_{name}"
    lines = [f"# HELP {full} {words}", f"# TYPE {full} {kind}"]
    for labels, value in samples:
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{full}{{{pairs}}} {value}" if pairs else f"{full} {value}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
