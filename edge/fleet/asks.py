"""What the region asks of this device: its newest log lines. Pure.

Lines go out as they were logged: the agent logs event names and fields, never payloads, keys or
tokens, so there is nothing to take out of them.
"""

from collections.abc import Callable, Sequence

from shared.fleet.asking import ASK_BYTES_MAX, TOLD_BYTES_MAX, Ask, Told

LINE_CHARS_MAX = 2000
_ENVELOPE_BYTES = 1024  # of `Told` besides its lines
_CUT = "the oldest were left out: an answer has at most 64 KiB"


def told(content: bytes, newest: Callable[[int], Sequence[str]]) -> bytes:
    """The answer to a question, at most `TOLD_BYTES_MAX`; `newest` gives that many lines, the newest
    last. Raises `Malformed`, `TooLarge`.
    """
    ask = Ask.from_bytes(content, ASK_BYTES_MAX)
    lines = newest(ask.lines)[-ask.lines :]
    kept, room = list[str](), TOLD_BYTES_MAX - _ENVELOPE_BYTES
    for line in reversed(lines):
        cut = line[:LINE_CHARS_MAX]
        room -= len(Told(id=ask.id, lines=(cut,)).to_bytes())
        if room < 0:
            break
        kept.append(cut)
    why = _CUT if len(kept) < len(lines) else ""
    return Told(id=ask.id, lines=tuple(reversed(kept)), why=why).to_bytes()
