"""What a process of ours shows and trusts where it asks another one."""

from ssl import SSLContext

from shared.api_key import key_in
from shared.fetching.session import tls_context
from shared.fetching.settings import Server


def credentials(
    server: Server, setting: str = "registry.api_key_file"
) -> tuple[str | None, SSLContext | None]:
    """Reads files. Raises `Malformed` for a key file or certificate that cannot be read, which the
    `setting` names.
    """
    return key_in(server.api_key_file, setting), tls_context(server)
