"""Whether a request was meant for this machine by name: what stops DNS rebinding. Pure.

A web page whose name is made to point at 127.0.0.1 asks this machine as its "own" site: browsers send
no `Origin` with its GET, and let it read the answer. What gives it away is the name in `Host`.
"""

import ipaddress


def is_own_name(host: str) -> bool:
    """`host` as the header has it: an IP address, localhost, or nothing (HTTP/1.0)."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    name = name.lower().removesuffix(".")
    if name in {"", "localhost"} or name.endswith(
        ".localhost"
    ):  # RFC 6761: never asked of a server
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
