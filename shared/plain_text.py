"""Text for people that comes from outside: shown on terminals, and kept in databases of which one takes
no NUL. So there are no control characters but those of plain text. Pure.
"""

import re
from typing import Final

_CONTROLS: Final = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
PLAIN: Final = rf"^[^{_CONTROLS}]*$"
"""The pattern of what somebody may send: who sends anything else is told."""
_CONTROL: Final = re.compile(f"[{_CONTROLS}]")


def plain(text: str) -> str:
    """With control characters replaced, where nobody is there to be told."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
