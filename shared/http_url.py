"""Where an HTTP API listens, as a URL."""


def http_url(host: str, port: int) -> str:
    """An IPv6 address stands in brackets (RFC 3986, 3.2.2)."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
