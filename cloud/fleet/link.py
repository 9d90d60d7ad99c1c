"""The fleet's one connection to the broker, as user `fleet`.

Its session ends with it: what devices say about themselves is retained, so a new connection brings
the newest of everything, and nothing piles up at the broker while this process is away.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from cloud.fleet.settings import FleetBroker
from shared.broker_url import parse_url
from shared.mqtt.link import Delivery, Link
from shared.mqtt.settings import LinkSettings
from shared.topics import REPORTED, STATES, TELEMETRY, TOLD

CLIENT_ID: Final = "fleet"
"""As the certificate's common name, which binds it; and a second process would end the first."""


def fleet_link(
    settings: FleetBroker,
    *,
    on_delivery: Callable[[Delivery], None],
    on_up: Callable[[], None],
    on_down: Callable[[], None],
) -> Link:
    return Link(
        link_settings(settings), subscriptions=(STATES, REPORTED, TELEMETRY, TOLD),
        on_delivery=on_delivery, on_up=lambda _kept: on_up(), on_down=on_down,
    )  # fmt: skip


def link_settings(settings: FleetBroker) -> LinkSettings:
    url = parse_url(settings.url.get_secret_value())
    return LinkSettings(
        host=url.host, port=url.port, client_id=CLIENT_ID, username=url.username,
        password=url.password.get_secret_value() if url.password else None, tls=url.tls,
        tls_ca=_text(settings.tls_ca), tls_certificate=_text(settings.tls_cert),
        tls_key=_text(settings.tls_key), keepalive_s=settings.keepalive_s, session_expiry_s=0,
        backoff_s_max=settings.backoff_s_max, window=settings.publish_max,
        receive_max=settings.receive_max,
    )  # fmt: skip


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
