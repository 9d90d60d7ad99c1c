"""One-time tokens: one device, one use, one hour."""

import hashlib

import pytest

from cloud.fleet.identity.enrolment import NewToken, admit, new_token, presented
from shared.errors import Conflict, Forbidden, Malformed, NotTrusted

NOW = 1_800_000_000.0


def token(device: str | None = None, seed: int = 0, ttl_s: float = 3600.0) -> NewToken:
    def random_bytes(count: int) -> bytes:
        return hashlib.sha256(bytes([seed])).digest()[:count]

    return new_token(
        made_by="ops", now=NOW, ttl_s=ttl_s, random_bytes=random_bytes, device=device,
        labels={"site": "lyon"},
    )  # fmt: skip


def let_in(made: NewToken, device: str = "cam-1", now: float = NOW + 1, **changed: object) -> str:
    stored = made.document.model_copy(update=changed)
    return admit(presented(made.text), stored, made.secret_sha256, device, now)


def test_a_token_enrols_a_device_that_names_itself() -> None:
    made = token()
    assert made.text.startswith("het_")
    assert made.document.labels == {"site": "lyon"}
    assert let_in(made, "cam-7") == "cam-7"


def test_its_secret_is_stored_nowhere() -> None:
    made = token()
    secret = presented(made.text).secret
    assert secret not in made.document.model_dump_json()
    assert secret not in made.secret_sha256
    assert secret not in repr(made) + repr(presented(made.text))


def test_a_token_of_one_device_enrols_no_other() -> None:
    assert let_in(token("cam-1")) == "cam-1"
    with pytest.raises(Forbidden, match="another device than cam-2"):
        let_in(token("cam-1"), "cam-2")


def test_a_token_is_used_once() -> None:
    with pytest.raises(Conflict, match="was used for cam-1"):
        let_in(token(), used_at=NOW, used_for="cam-1")


def test_a_token_ends_at_its_time() -> None:
    made = token()
    assert let_in(made, now=NOW + 3599) == "cam-1"
    with pytest.raises(NotTrusted, match="expired"):
        let_in(made, now=NOW + 3600)


def test_a_wrong_secret_and_no_such_token_sound_the_same() -> None:
    made, other = token(), token(seed=1)
    forged = presented(f"het_{made.document.id}_{presented(other.text).secret}")
    with pytest.raises(NotTrusted) as wrong:
        admit(forged, made.document, made.secret_sha256, "cam-1", NOW)
    with pytest.raises(NotTrusted) as absent:
        admit(presented(made.text), None, "", "cam-1", NOW)
    assert str(wrong.value) == str(absent.value)


def test_a_wrong_secret_is_not_told_that_the_token_was_used() -> None:
    made, other = token(), token(seed=1)
    forged = presented(f"het_{made.document.id}_{presented(other.text).secret}")
    used = made.document.model_copy(update={"used_at": NOW, "used_for": "cam-1"})
    with pytest.raises(NotTrusted, match="not known"):
        admit(forged, used, made.secret_sha256, "cam-1", NOW)


def test_another_tokens_record_does_not_let_in() -> None:
    made, other = token(), token(seed=1)
    with pytest.raises(NotTrusted):
        admit(presented(made.text), other.document, made.secret_sha256, "cam-1", NOW)


@pytest.mark.parametrize("text", [
    "", "het_", "het_a_b", "het_" + "a" * 16 + "_" + "a" * 31, "hyk_" + "a" * 16 + "_" + "a" * 32,
    "het_" + "A" * 16 + "_" + "a" * 32, "het_" + "1" * 16 + "_" + "a" * 32, "x" * 100_000,
    "het_" + "a" * 16 + "_" + "a" * 32 + "\n\nx",
])  # fmt: skip
def test_what_is_no_token_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(Malformed) as refused:
        presented(text)
    assert len(text) < 10 or text not in str(refused.value)


@pytest.mark.parametrize("name", ["worker", "fleet", "trust", "tuf", "Fleet", "hybridge-owner"])
def test_names_that_are_taken_are_enrolled_by_no_token(name: str) -> None:
    with pytest.raises(Malformed, match="taken"):
        let_in(token(), name)
    with pytest.raises(Malformed, match="taken"):
        token(name)


@pytest.mark.parametrize("name", ["", "a/b", "+", "#", "$SYS", "a b", "x" * 65, "-a", "a\n"])
def test_what_is_no_device_id_is_enrolled_by_no_token(name: str) -> None:
    with pytest.raises(Malformed):
        let_in(token(), name)


@pytest.mark.parametrize("ttl_s", [0.0, -1.0, 59.0, 366 * 86_400.0, float("nan"), float("inf")])
def test_a_life_that_is_none_is_refused(ttl_s: float) -> None:
    with pytest.raises(Malformed, match="ttl_s"):
        token(ttl_s=ttl_s)
