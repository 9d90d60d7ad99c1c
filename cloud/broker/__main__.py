"""Run the embedded broker: `python -m cloud.broker --port 0`; `options` has its command line."""

import asyncio
import contextlib
import sys
from collections.abc import Iterator, Sequence

from cloud.broker.options import parse
from cloud.broker.service import serve
from shared.errors import HybridgeError
from shared.logs import set_up

CANNOT_SERVE = 2
"""Exit code when it cannot start, or its store is damaged while it runs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run on uvloop where it is installed."""
    set_up("info")
    factory = None
    with contextlib.suppress(ImportError):
        import uvloop  # noqa: PLC0415  optional: Windows has none

        factory = uvloop.new_event_loop
    code = 0
    try:
        options = parse(arguments)
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(serve(options))
    except* HybridgeError as errors:  # alone, or out of the group of the process's parts
        for error in leaves(errors):
            print(error, file=sys.stderr)  # noqa: T201
        code = CANNOT_SERVE
    return code


def leaves(errors: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """Give the errors in a group of groups."""
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error


if __name__ == "__main__":
    sys.exit(main())
