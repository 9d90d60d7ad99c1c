"""Settings that cannot work are refused in words, without the secrets in them."""

import pytest
from pydantic import SecretStr, ValidationError

from cloud.jobs.settings import JobSettings, key_of
from shared.config import in_words
from tests.cloud.jobs.sample import SECRET, rules


def refused(**over: object) -> str:
    with pytest.raises(ValidationError) as error:
        rules(**over)
    return in_words(error.value)


@pytest.mark.parametrize(
    "over", [{"attempt_s": 56}, {"lease_s": 20}, {"lease_s": 60, "webhook": {"timeout_s": 56}}]
)
def test_a_lease_outlasts_what_is_done_under_it(over: dict[str, object]) -> None:
    assert "another process would take" in refused(**over)


@pytest.mark.parametrize(
    "secret",
    ["QUJD", "whsec_", "whsec_QUJD", "whsec_!!!!" + SECRET[6:], "whsec_" + "QUJD" * 22, SECRET[6:]],
)
def test_a_secret_that_is_no_key(secret: str) -> None:
    words = refused(webhook={"secrets": {"key-1": [secret]}})
    assert "24 to 64 random bytes" in words
    assert len(secret) < 8 or secret not in words


def test_a_caller_with_an_empty_list_of_secrets() -> None:
    assert "no secret in its list" in refused(webhook={"secrets": {"key-1": []}})


def test_secrets_are_not_shown() -> None:
    found = rules(webhook={"secrets": {"key-1": [SECRET]}})
    assert SECRET not in repr(found) + found.model_dump_json()
    assert len(key_of(SecretStr(SECRET), "key-1")) == 26


def test_a_name_that_is_no_setting() -> None:
    assert "no such setting" in refused(jobs_maximum=1)


def test_defaults_are_sound() -> None:
    assert JobSettings().expiry_s == 24 * 3600
