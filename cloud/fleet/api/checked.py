"""What the fleet's paths may hold. Pure."""

from typing import Final

from cloud.api.checked import PathRules

_NAME: Final = r"[a-z0-9][a-z0-9-]{0,63}"
PATHS: Final = PathRules({
    "device": (
        r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}",
        "1 to 64 of letters, digits, '_', '.' and '-', a letter or digit first, as 'camera-1'",
    ),
    "group": (_NAME, "1 to 64 of a-z, 0-9 and '-', as 'lyon'"),
    "model": (_NAME, "1 to 64 of a-z, 0-9 and '-', as 'fashion-edge'"),
    "profile": (_NAME, "1 to 64 of a-z, 0-9 and '-', as 'camera'"),
    "number": (r"[1-9][0-9]{0,5}", "a number from 1, as '3'"),
    "token": (r"[a-z0-9]{8,32}", "a token's id, as it was given"),
    "rollout": (r"[a-z0-9][a-z0-9-]{0,79}", "a rollout's id, as it was given"),
    "alarm": (r"[a-z0-9][a-z0-9-]{0,79}", "an alarm's id, as it was given"),
    "verb": (
        r"(start|pause|resume|approve|skip|abort|undo|retry)",
        "start, pause, resume, approve, skip, abort, undo or retry",
    ),
})  # fmt: skip
