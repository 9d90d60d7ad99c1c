"""Run the embedded broker: `python -m cloud.broker --port 0`; `options` has its command line."""

import asyncio
import contextlib
import sys
from collections.abc import Sequence

from cloud.broker.options import parse
from cloud.broker.service import serve
from shared.errors import HybridgeError
from shared.logs import set_up


def main(arguments: Sequence[str] | None = None) -> int:
    """Run on uvloop where it is installed."""
    set_up("info")
    factory = None
    with contextlib.suppress(ImportError):
        import uvloop  # noqa: PLC0415  optional: Windows has none

        factory = uvloop.new_event_loop
    try:
        options = parse(arguments)
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(serve(options))
    except HybridgeError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
