from pathlib import Path

import pytest
from pydantic import ValidationError

from cloud.gateway.settings import GatewaySettings, TokenSettings
from shared.errors import Malformed

TOKENS = {"issuer": "https://login.example", "audience": "hybridge"}


def tokens(**more) -> TokenSettings:
    return TokenSettings.model_validate({**TOKENS, **more})


@pytest.mark.parametrize(
    "url",
    [
        "https://login.example/keys",
        "http://127.0.0.1:9/keys",
        "http://localhost/k",
        "http://[::1]:1/k",
    ],
)
def test_keys_come_over_tls_or_from_this_machine(url):
    assert tokens(keys_url=url).keys_url == url


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, "keys_url or keys_file, one"),
        ({"keys_url": "https://a.b/k", "keys_file": "f"}, "keys_url or keys_file, one"),
        ({"keys_url": "http://login.example/keys"}, "want https"),
        ({"keys_url": "file:///etc/passwd"}, "want https"),
        ({"keys_url": "https://"}, "want https"),
        ({"keys_url": "http://127.0.0.1.evil.example/k"}, "want https"),
        ({"keys_url": "https://user:secret@login.example/k"}, "no user or password"),
        ({"keys_file": "f", "leeway_s": 301}, "leeway_s"),
        ({"keys_file": "f", "refresh_s": 10}, "refresh_s is at least pause_s_min"),
        ({"keys_file": "f", "stale_s_max": 100}, "stale_s_max is above refresh_s"),
        ({"keys_file": "f", "issuer": ""}, "issuer"),
        ({"keys_file": "f", "algorithm": "HS256"}, "algorithm"),
    ],
)
def test_token_settings_that_do_not_fit_are_refused(more, why):
    with pytest.raises(ValidationError, match=why):
        tokens(**more)


def test_anonymous_callers_come_in_where_there_is_nothing_else_or_it_is_said():
    assert GatewaySettings().lets_anonymous_in
    assert not GatewaySettings(key_file=Path("k")).lets_anonymous_in
    assert not GatewaySettings(tokens=tokens(keys_file="f")).lets_anonymous_in
    assert GatewaySettings(key_file=Path("k"), allow_anonymous=True).lets_anonymous_in
    assert not GatewaySettings(allow_anonymous=False).lets_anonymous_in


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "example.org"])
def test_other_machines_are_let_in_only_on_purpose(host):
    for unguarded in (GatewaySettings(), GatewaySettings(allow_anonymous=False)):
        with pytest.raises(Malformed, match=r"gateway.key_file or gateway.tokens, or say"):
            unguarded.check_exposed(host)
    GatewaySettings(key_file=Path("k")).check_exposed(host)
    GatewaySettings(tokens=tokens(keys_file="f")).check_exposed(host)
    GatewaySettings(allow_anonymous=True).check_exposed(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_this_machine_is_let_in_as_it_comes(host):
    GatewaySettings().check_exposed(host)


def test_a_rate_is_checked_where_it_is_set():
    with pytest.raises(ValidationError, match="write it as"):
        GatewaySettings(rate="fast")
    assert len(GatewaySettings(rate="5/second; 9/hour").limits.rates) == 2
    assert GatewaySettings().limits.rates == ()


def test_a_storage_is_not_shown():
    settings = GatewaySettings.model_validate({"storage": "redis://:secret@host"})
    assert "secret" not in repr(settings)
