"""The presence document, `hy/v1/{device}/up/state`: retained, and the connection's last will."""

import json

from shared.bundle.manifest import Manifest


def presence(manifest: Manifest, *, online: bool) -> bytes:
    said = {"online": online, "model": manifest.name, "model_version": manifest.version}
    return json.dumps(said).encode()
