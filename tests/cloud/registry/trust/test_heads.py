"""The end of a log, signed by the home and by nobody else."""

import json

import pytest

from cloud.registry.documents import Head
from cloud.registry.trust.heads import is_signed, sign_head, verify_head
from shared.errors import Malformed, NotTrusted
from shared.trust.chain import Chain
from shared.trust.tuf_api import Metadata
from tests.shared.trust.site import Site, holders, key

HEAD = Head(epoch=1, seq=41, sha256="ab" * 32)


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_head_signed_by_the_snapshot_key_is_verified(site: Site) -> None:
    root = Chain(site.root).root
    signature = sign_head(HEAD, site.keys["snapshot"])
    verify_head(HEAD, signature, root)
    assert len(signature) < 300


@pytest.mark.parametrize(
    "change", [{"seq": 42}, {"sha256": "ba" * 32}, {"epoch": 0}], ids=["seq", "hash", "epoch"]
)
def test_another_head_is_refused(site: Site, change: dict) -> None:
    signature = sign_head(HEAD, site.keys["snapshot"])
    with pytest.raises(NotTrusted, match="not signed by the snapshot key of root 1"):
        verify_head(HEAD.model_copy(update=change), signature, Chain(site.root).root)


@pytest.mark.parametrize("role", ["timestamp", "targets", "release", "root"])
def test_other_keys_do_not_vouch_for_a_log(site: Site, role: str) -> None:
    assert not is_signed(Chain(site.root).root, HEAD, sign_head(HEAD, site.keys[role]))


def test_an_old_home_is_heard_no_more_once_the_root_names_other_keys(site: Site) -> None:
    old = list(site.keys["snapshot"])
    site.keys["snapshot"], site.keys["timestamp"] = [key()], [key()]
    changed = {role: holders(*site.keys[role]) for role in ("snapshot", "timestamp")}
    chain = Chain(site.root)
    site.turn_root(changed, site.keys["root"][:2], epoch=2)
    chain.add_root(site.root)
    for head in (HEAD, HEAD.model_copy(update={"epoch": 2})):
        assert not is_signed(chain.root, head, sign_head(head, old))
        verify_head(head, sign_head(head, site.keys["snapshot"]), chain.root)


def test_an_epoch_that_no_root_names_is_refused(site: Site) -> None:
    ahead = HEAD.model_copy(update={"epoch": 2})
    signature = sign_head(ahead, site.keys["snapshot"])
    with pytest.raises(NotTrusted, match="fetch the newer root first"):
        verify_head(ahead, signature, Chain(site.root).root)


def test_enough_of_several_snapshot_keys_must_sign(site: Site) -> None:
    two = [key(), key()]
    chain = Chain(site.root)
    site.turn_root({"snapshot": holders(*two, threshold=2)}, site.keys["root"][:2])
    chain.add_root(site.root)
    assert is_signed(chain.root, HEAD, sign_head(HEAD, two))
    assert not is_signed(chain.root, HEAD, sign_head(HEAD, two[:1]))
    one = json.loads(sign_head(HEAD, two[:1]))["signatures"]
    assert not is_signed(chain.root, HEAD, json.dumps({"signatures": one * 2}))


def test_a_signature_of_metadata_is_none_of_a_head(site: Site) -> None:
    """The snapshot key signs both; what it signs is told apart."""
    (signature,) = Metadata.from_bytes(site.newest["snapshot"]).signatures.values()
    text = json.dumps({"signatures": [{"keyid": signature.keyid, "sig": signature.signature}]})
    assert not is_signed(Chain(site.root).root, HEAD, text)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "null", "[" * 3_000, '{"signatures":[]}', '{"signatures":[1]}', "\ud800",
     '{"signatures":[{"keyid":"x","sig":"y"}]}', "x" * 5_000],
)  # fmt: skip
def test_what_is_no_signature_vouches_for_nothing(site: Site, text: str) -> None:
    root = Chain(site.root).root
    assert not is_signed(root, HEAD, text)
    with pytest.raises((NotTrusted, Malformed)):
        verify_head(HEAD, text, root)
