"""What the paths of the learning API may hold. Pure."""

from typing import Final

from cloud.api.checked import PathRules
from cloud.training.api.limits import PLACEHOLDERS as TRAINING

_NAME: Final = r"[a-z0-9][a-z0-9-]{0,63}"
PATHS: Final = PathRules({
    **TRAINING,
    "model": (_NAME, "1 to 64 of a-z, 0-9 and '-', as 'fashion-edge'"),
    "cycle": (r"[a-z0-9][a-z0-9-]{0,79}", "a cycle's id, as it was given"),
    "device": (
        r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}",
        "1 to 64 of letters, digits, '_', '.' and '-', a letter or digit first, as 'camera-1'",
    ),
    "sample": (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "a sample's id, as it was given"),
    "name": (_NAME, "1 to 64 of a-z, 0-9 and '-', as 'lyon-spring'"),
    "number": (r"[1-9][0-9]{0,5}", "a number from 1, as '3'"),
})  # fmt: skip
