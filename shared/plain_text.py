"""Text for people that comes from outside: shown on terminals, and kept in databases of which one takes
no NUL and none a lone surrogate (a file's name that is no UTF-8 has them). So there are no control characters
but those of plain text, and nothing that UTF-8 cannot say. Pure.
"""

import re
from typing import Final

_CONTROLS: Final = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
PLAIN: Final = rf"^[^{_CONTROLS}]*$"
"""The pattern of what somebody may send: who sends anything else is told."""
_ODD: Final = re.compile(rf"[{_CONTROLS}\ud800-\udfff]")


def plain(text: str) -> str:
    """With control characters and lone surrogates replaced, where nobody is there to be told."""
    return _ODD.sub("\N{REPLACEMENT CHARACTER}", text)
