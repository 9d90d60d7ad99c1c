"""A bundle and the file beside it, checked with a root alone."""

import json
from pathlib import Path

import pytest

from cloud.registry.trust import edits
from shared.bundle.reader import Bundle, open_bundle
from shared.errors import Malformed, NotTrusted, Refused, TooLarge
from shared.trust.signature import SIGNATURE_BYTES_MAX, check_signature, write_signature
from tests.shared.trust.site import DAY, NOW, Site, holders, key, stored
from tests.tiny_bundle import write_tiny_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return open_bundle(write_tiny_bundle(tmp_path / "bundle"))


@pytest.fixture
def site(bundle: Bundle) -> Site:
    return signed_for(bundle)


def signed_for(bundle: Bundle) -> Site:
    name = bundle.manifest.name
    site = Site(models=(name,))
    content = edits.with_release(
        None, name, bundle.manifest.version, stored(bundle.manifest_bytes), NOW, 365
    )
    role = f"model-{name}"
    site.publish({role: edits.sign(content, role, site.keys["release"])})
    return site


def signature(site: Site, bundle: Bundle) -> bytes:
    name, version = bundle.manifest.name, bundle.manifest.version
    roots = [content for file, content in site.files.items() if file.endswith(".root.json")]
    return write_signature(
        name, version, roots, site.newest["targets"], site.newest[f"model-{name}"]
    )


def test_a_bundle_is_checked_offline(site: Site, bundle: Bundle) -> None:
    found = check_signature(bundle, signature(site, bundle), site.root, NOW)
    assert (found.model, found.version) == (bundle.manifest.name, bundle.manifest.version)
    assert found.keys == (site.keys["release"][0].public_key.keyid,)
    assert found.threshold == 1
    assert found.number == 1
    assert found.expires == NOW + 365 * DAY


def test_an_older_pinned_root_follows_the_roots_in_the_file(site: Site, bundle: Bundle) -> None:
    first = site.root
    site.keys["targets"] = [key()]
    site.turn_root({"targets": holders(*site.keys["targets"])}, site.keys["root"][:2], epoch=2)
    again = edits.renewed(site.newest["targets"], "targets", NOW, 365)
    site.publish({"targets": edits.sign(again, "targets", site.keys["targets"])})
    found = check_signature(bundle, signature(site, bundle), first, NOW)
    assert (found.root_version, found.epoch) == (2, 2)
    assert check_signature(bundle, signature(site, bundle), site.root, NOW).epoch == 2


def refused(
    bundle: Bundle, content: bytes, root: bytes, reason: str, error: type[Refused] = NotTrusted
) -> None:
    with pytest.raises(error, match=reason):
        check_signature(bundle, content, root, NOW)


def test_a_bundle_that_was_changed_is_refused(site: Site, bundle: Bundle, tmp_path: Path) -> None:
    content = signature(site, bundle)
    path = tmp_path / "bundle" / "manifest.json"
    path.write_bytes(path.read_bytes() + b"\n")
    refused(open_bundle(tmp_path / "bundle"), content, site.root, "manifest.json has")


def test_another_bundles_signature_is_refused(site: Site, bundle: Bundle, tmp_path: Path) -> None:
    other = open_bundle(write_tiny_bundle(tmp_path / "other", version="7.0.0"))
    refused(other, signature(site, bundle), site.root, "the signature is for")
    tree = json.loads(signature(site, bundle))
    tree["version"] = "7.0.0"
    refused(other, json.dumps(tree).encode(), site.root, "releases other versions, not 7.0.0")


def test_a_foreign_root_a_foreign_key_and_one_signature_of_two_are_refused(
    site: Site, bundle: Bundle
) -> None:
    refused(bundle, signature(site, bundle), Site().root, "signature: targets")
    name = bundle.manifest.name
    role = f"model-{name}"
    signed = edits.renewed(site.newest[role], role, NOW, 365)
    site.newest[role] = edits.sign(signed, role, [key()])
    refused(bundle, signature(site, bundle), site.root, "signed by 0 of the 1 release keys")
    both = [key(), key()]
    targets = edits.with_delegation(
        site.newest["targets"], {name: holders(*both, threshold=2)}, NOW, 365
    )
    site.newest["targets"] = edits.sign(targets, "targets", site.keys["targets"])
    site.newest[role] = edits.sign(signed, role, both[:1])
    refused(bundle, signature(site, bundle), site.root, "signed by 1 of the 2 release keys")


def test_an_expired_signature_is_refused_unless_asked_as_of_its_day(
    site: Site, bundle: Bundle
) -> None:
    content = signature(site, bundle)
    with pytest.raises(NotTrusted, match=r"expired on 2027-06-01 12:00 UTC; .* as of the day"):
        check_signature(bundle, content, site.root, NOW + 366 * DAY)
    assert check_signature(bundle, content, site.root, NOW + 364 * DAY)


def test_what_is_no_signature_is_refused(site: Site, bundle: Bundle) -> None:
    refused(bundle, b"{}", site.root, "`.sig.json`", Malformed)
    refused(bundle, b"[" * 100_000, site.root, "nested deeper", Malformed)
    refused(bundle, b" " * (SIGNATURE_BYTES_MAX + 1), site.root, "at most", TooLarge)
    tree = json.loads(signature(site, bundle))
    refused(bundle, json.dumps({**tree, "roots": [1]}).encode(), site.root, "no root", Malformed)
    refused(bundle, json.dumps({**tree, "role": []}).encode(), site.root, "model-", Malformed)
    refused(bundle, json.dumps({**tree, "format": 2}).encode(), site.root, "format", Malformed)
