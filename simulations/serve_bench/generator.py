"""Run the open loop of `cloud.capacity.load` with a request of this bench."""

from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from cloud.capacity.load import generator
from cloud.capacity.load.arrivals import Stretch
from cloud.capacity.load.generator import Running
from cloud.capacity.load.order import Messages
from cloud.capacity.load.outcomes import Outcomes
from simulations.serve_bench.wire_forms import Request


def run(
    url: str, asked: Request, stretches: Sequence[Stretch], folder: Path, *,
    prefix: tuple[str, ...] = (), meanwhile: Callable[[Running], None] = lambda _: None,
    seed: int = 1,
) -> Outcomes:  # fmt: skip
    """Load `url` with `asked`; call `meanwhile` once it has begun. Raises `Unavailable`."""
    message = asked.head(urlsplit(url).netloc) + asked.body
    return generator.run(
        url, Messages((message,)), stretches, folder, prefix=prefix, meanwhile=meanwhile, seed=seed
    )
