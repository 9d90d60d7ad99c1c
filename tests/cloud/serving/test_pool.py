"""Which models are loaded, by what name they are found, and what a bad one costs the others."""

import asyncio
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from cloud.serving.loading import estimate_bytes, load
from cloud.serving.pool import Loading, ModelPool, NotLoaded
from cloud.serving.pool_plan import Key
from cloud.serving.pool_sources import Sources
from cloud.serving.settings import Batching, ModelSettings, PoolSettings
from shared.bundle.reader import open_bundle
from shared.errors import (
    HybridgeError,
    Malformed,
    NotTrusted,
    Overloaded,
    TooLarge,
    Unavailable,
    Unknown,
)
from shared.wire.envelope import Payload
from tests.cloud.serving.pools import fashion, label, play, running, tiny, until
from tests.split_bundle import tiny_features, write_backbone, write_head
from tests.tiny_bundle import sure_image, write_tiny_bundle


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def spoil(bundle: Path) -> None:
    """Other weights than the manifest vouches for."""
    graph = bundle / "variants" / "model.onnx"
    graph.write_bytes(graph.read_bytes()[:-1] + b"\0")


def state(pool: ModelPool, name: str, version: str = "1.0.0") -> tuple[str, str]:
    (entry,) = [e for e in pool.index() if (e.name, e.version) == (name, version)]
    return entry.state, entry.reason


async def loaded(pool: ModelPool, name: str, version: str | None = None) -> None:
    """Until a load in the background has ended, well or not."""
    await asyncio.wait(pool._loads._under_way.values())


# by name and version


def test_it_is_ready_once_every_configured_model_is_loaded(tmp_path: Path) -> None:
    a, b = tiny(tmp_path, "a"), tiny(tmp_path, "b")

    async def scenario() -> None:
        pool = ModelPool(
            [ModelSettings(bundle=a), ModelSettings(bundle=b)],
            pool=PoolSettings(), batching=Batching(), cache_dir=tmp_path / "cache",
        )  # fmt: skip
        assert (pool.ready, pool.why_not_ready) == (False, "models are loading")
        with pytest.raises(Loading):
            pool.find("a")
        starting = asyncio.create_task(pool.start())
        await until(lambda: any(each.name == "a" for each in pool.served))
        assert not pool.ready
        assert pool.why_not_ready is not None
        assert "b 1.0.0" in pool.why_not_ready
        await starting
        assert (pool.ready, pool.why_not_ready) == (True, None)
        await pool.close()

    play(scenario)


def test_names_and_versions_that_are_not_here_are_told_what_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tiny(tmp_path, "a")) as pool:
            with pytest.raises(Unknown, match="no model 'x' here; there are a"):
                pool.find("x")
            with pytest.raises(Unknown, match=r"has no version '7.0.0' here; it has 1.0.0"):
                pool.find("a", "7.0.0")
            with pytest.raises(Unknown, match="no model 'x' here"):
                await pool.load("x")
            with pytest.raises(Unknown):
                await pool.unload("a", "7.0.0")
            assert len(pool.index()) == 1  # asking leaves nothing behind

    play(scenario)


def test_the_newest_configured_version_has_the_name_and_the_other_its_number(
    tmp_path: Path,
) -> None:
    new, old = tiny(tmp_path, version="2.0.0"), tiny(tmp_path, version="1.0.0")

    async def scenario() -> None:
        async with running(new, old) as pool:
            assert pool.find("tiny").version == "2.0.0"
            assert pool.find("tiny", "1.0.0").version == "1.0.0"
            assert pool.versions("tiny") == ("1.0.0", "2.0.0")

    play(scenario)


def test_more_configured_versions_than_are_kept_are_refused(tmp_path: Path) -> None:
    bundles = [tiny(tmp_path, version=version) for version in ("1.0.0", "2.0.0")]

    async def scenario() -> None:
        async with running(*bundles, versions_max=1):
            pass

    with pytest.raises(Malformed, match="2 versions of tiny; remove some, or raise"):
        play(scenario)


def test_the_same_version_twice_is_refused(tmp_path: Path) -> None:
    first, second = tiny(tmp_path / "x"), tiny(tmp_path / "y")

    async def scenario() -> None:
        async with running(first, second):
            pass

    with pytest.raises(Malformed, match=r"is tiny 1.0.0 too; name one of them"):
        play(scenario)


def test_edge_models_are_answered_by_whom_the_bundle_names(tmp_path: Path) -> None:
    bundle = tiny(tmp_path, "big", answers_for=("small",))

    async def scenario() -> None:
        async with running(bundle) as pool:
            assert pool.answering("small") is pool.find("big")
            assert pool.answering("big") is pool.find("big")
            with pytest.raises(Unknown, match="'other'; there are big, small"):
                pool.answering("other")

    play(scenario)


def test_two_models_for_one_edge_model_are_refused(tmp_path: Path) -> None:
    bundles = [tiny(tmp_path, name, answers_for=("small",)) for name in ("a", "b")]

    async def scenario() -> None:
        async with running(*bundles):
            pass

    with pytest.raises(Malformed, match="a and b both answer for 'small'"):
        play(scenario)


def test_a_version_that_answers_for_fewer_leaves_the_others(tmp_path: Path) -> None:
    old = tiny(tmp_path, "big", answers_for=("small", "smaller"))
    new = tiny(tmp_path, "big", "2.0.0", answers_for=("small",))
    other = tiny(tmp_path, "other", answers_for=("smaller",))

    async def scenario() -> None:
        async with running(old, folder=tmp_path) as pool:
            with pytest.raises(Malformed, match="big and other both answer for 'smaller'"):
                await pool.load("other")
            await pool.load("big")
            assert pool.answering("small").version == "2.0.0"
            await pool.load("other")
            assert pool.answering("smaller").name == "other"
            assert new.exists()
            assert other.exists()

    play(scenario)


def test_a_model_of_floats_is_served_and_takes_no_escalations(tmp_path: Path) -> None:
    bundle = float_model(tmp_path / "floats")
    features = tiny_features(np.stack([sure_image(n) for n in range(3)]))

    async def scenario() -> None:
        async with running(bundle) as pool:
            served = pool.find("tiny-head")
            (spec,) = served.signature.inputs
            assert (spec.datatype, spec.shape) == ("FP32", (-1, 16))
            ran = await served.batcher.infer(features, 1e12)
            assert np.argmax(ran.outputs.logits, axis=1).tolist() == [0, 1, 2]
            with pytest.raises(Malformed, match="NaN"):
                await served.batcher.infer(features * np.float32(np.nan), 1e12)
            escalated = Payload("raw", "uint8", (16,), bytes(16))
            with pytest.raises(Malformed, match="takes float32; escalations carry uint8"):
                served.model.decode(escalated)

    play(scenario)


def float_model(folder: Path) -> Path:
    """A head on its own: float32 [16] to logits [3]."""
    write_head(folder)
    rewrite(folder, backbone=None)
    return folder


def test_the_signature_is_the_graphs_output_and_what_is_made_of_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tiny(tmp_path)) as pool:
            signature = pool.find("tiny").signature
            assert signature.platform == "onnxruntime"
            (image,) = signature.inputs
            assert (image.name, image.datatype, image.shape) == ("image", "UINT8", (-1, 4, 4))
            assert [(o.name, o.datatype, o.shape) for o in signature.outputs] == [
                ("logits", "FP32", (-1, 3)), ("probabilities", "FP32", (-1, 3)),
                ("label", "BYTES", (-1,)), ("index", "INT64", (-1,)),
                ("confidence", "FP32", (-1,)), ("source", "BYTES", (-1,)),
            ]  # fmt: skip

    play(scenario)


def test_a_head_takes_what_its_backbone_takes_and_brings_it_along(tmp_path: Path) -> None:
    head, backbone = write_head(tmp_path / "head"), write_backbone(tmp_path / "backbone")

    async def scenario() -> None:
        async with running(head, backbone) as pool:
            (image,) = pool.find("tiny-head").signature.inputs
            assert (image.name, image.datatype, image.shape) == ("image", "UINT8", (-1, 4, 4))
            assert pool.find("tiny-backbone").signature.output_names == ("features",)
            escalated = Payload("raw", "uint8", (4, 4), sure_image(1).tobytes())
            assert pool.find("tiny-head").model.decode(escalated).tolist() == sure_image(1).tolist()
        async with running(tiny(tmp_path), folder=tmp_path) as pool:
            await pool.load("tiny-head")
            assert pool.find("tiny-backbone").version == "1.0.0"

    play(scenario)


def test_a_head_without_its_backbone_is_refused(tmp_path: Path) -> None:
    head = write_head(tmp_path / "head")

    async def scenario() -> None:
        async with running(head):
            pass

    with pytest.raises(Unknown, match=r"tiny-head 1.0.0 needs tiny-backbone 1.0.0; add its bundle"):
        play(scenario)


def test_a_head_of_something_else_is_refused(tmp_path: Path) -> None:
    head, other = write_head(tmp_path / "head"), tiny(tmp_path, "tiny-backbone")

    async def scenario() -> None:
        async with running(head, other):
            pass

    with pytest.raises(Malformed, match=r"its backbone tiny-backbone 1.0.0 gives classify"):
        play(scenario)


# loading and unloading


def test_load_takes_the_newest_of_the_folder_or_the_one_named(tmp_path: Path) -> None:
    first = tiny(tmp_path, version="1.0.0")

    async def scenario() -> None:
        async with running(first, folder=tmp_path) as pool:
            tiny(tmp_path, version="1.9.0")
            tiny(tmp_path, version="1.10.0")
            assert (await pool.load("tiny")).version == "1.10.0"
            assert pool.find("tiny").version == "1.10.0"
            assert (await pool.load("tiny", "1.9.0")) is pool.find("tiny")
            assert pool.find("tiny").version == "1.9.0"

    play(scenario)


def test_the_version_before_stays_at_hand_and_the_one_before_that_leaves(tmp_path: Path) -> None:
    versions = [f"{n}.0.0" for n in (1, 2, 3)]
    for version in versions:
        tiny(tmp_path, version=version)

    async def scenario() -> None:
        async with running(tmp_path / "tiny-1.0.0", folder=tmp_path) as pool:
            for version in versions[1:]:
                await pool.load("tiny", version)
            assert pool.versions("tiny") == ("2.0.0", "3.0.0")
            assert await label(pool.find("tiny", "2.0.0")) == 2

    play(scenario)


def test_a_known_model_loads_when_first_asked_for_and_only_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    tiny(tmp_path, "other")

    async def scenario() -> None:
        async with running(tiny(tmp_path), folder=tmp_path) as pool:
            assert state(pool, "other") == ("UNAVAILABLE", "not loaded")
            for _ in range(50):
                with pytest.raises(Loading, match=r"other 1.0.0 is being loaded") as told:
                    pool.find("other")
            assert told.value.retry_after_s is not None
            assert told.value.retry_after_s > 0
            loads = [t for t in asyncio.all_tasks() if t.get_name() == "load other 1.0.0"]
            assert len(loads) == 1
            assert state(pool, "other")[0] == "LOADING"
            assert pool.ready
            await loaded(pool, "other")
            assert state(pool, "other") == ("READY", "")
            assert await label(pool.find("other"), of=2) == 0

    play(scenario)
    assert [r.model for r in caplog.records if r.msg == "model_loaded"] == ["tiny", "other"]


def test_an_escalation_has_its_model_loaded_too(tmp_path: Path) -> None:
    tiny(tmp_path, "big", answers_for=("small",))

    async def scenario() -> None:
        async with running(tiny(tmp_path), folder=tmp_path) as pool:
            with pytest.raises(Loading, match=r"big 1.0.0 is being loaded"):
                pool.answering("small")
            await loaded(pool, "big")
            assert pool.answering("small").name == "big"

    play(scenario)


def test_asking_for_a_version_by_number_does_not_move_the_name(tmp_path: Path) -> None:
    tiny(tmp_path, version="2.0.0")

    async def scenario() -> None:
        async with running(tiny(tmp_path), folder=tmp_path) as pool:
            with pytest.raises(Loading):
                pool.find("tiny", "2.0.0")
            await loaded(pool, "tiny")
            assert pool.find("tiny", "2.0.0").version == "2.0.0"
            assert pool.find("tiny").version == "1.0.0"

    play(scenario)


def test_what_was_unloaded_on_request_stays_so_until_it_is_loaded(tmp_path: Path) -> None:
    bundle = tiny(tmp_path, answers_for=("small",))

    async def scenario() -> None:
        async with running(bundle) as pool:
            await pool.unload("tiny")
            for find in (pool.find, pool.answering):
                with pytest.raises(NotLoaded, match=r"tiny 1.0.0 was unloaded; load it first"):
                    find("tiny")
            with pytest.raises(NotLoaded, match="was unloaded"):
                pool.answering("small")
            assert state(pool, "tiny") == ("UNAVAILABLE", "unloaded")
            assert pool.versions("tiny") == ()
            await pool.load("tiny")
            assert pool.answering("small") is pool.find("tiny")

    play(scenario)


def test_the_busy_time_of_models_that_left_is_not_forgotten(tmp_path: Path) -> None:
    bundle = tiny(tmp_path)

    async def scenario() -> None:
        async with running(bundle) as pool:
            await label(pool.find("tiny"))
            before = pool.busy_s
            assert before > 0
            await pool.unload("tiny")
            assert pool.busy_s == before
            await pool._loads.retiring.finish()
            assert pool.busy_s == before
            await label(await pool.load("tiny"))
            assert pool.busy_s > before

    play(scenario)


def test_a_pool_that_closes_begins_no_loads(tmp_path: Path) -> None:
    tiny(tmp_path, "other")

    async def scenario() -> None:
        async with running(tiny(tmp_path), folder=tmp_path) as pool:
            await pool.drain()
            with pytest.raises(NotLoaded, match="is not loaded, and this worker is shutting down"):
                pool.find("other")
            with pytest.raises(NotLoaded, match="shutting down"):
                await pool.load("other")
            with pytest.raises(Unavailable, match="shutting down"):
                await label(pool.find("tiny"))

    play(scenario)


def test_a_version_whose_bundle_is_gone_can_be_unloaded(tmp_path: Path) -> None:
    tiny(tmp_path, "other")

    async def scenario() -> None:
        async with running(tiny(tmp_path), folder=tmp_path) as pool:
            await pool.load("other")
            shutil.rmtree(tmp_path / "other-1.0.0")
            await pool.load("tiny")  # looks through the folder
            assert state(pool, "other") == ("READY", "")
            await pool.unload("other")
            with pytest.raises(Unknown):
                pool.find("other")

    play(scenario)


def test_draining_answers_what_a_replaced_version_accepted(tmp_path: Path) -> None:
    for version in ("1.0.0", "2.0.0"):
        fashion(tmp_path, version)
    golden = open_bundle(tmp_path / "fashion-cloud-1.0.0").golden.inputs

    async def scenario() -> None:
        first = tmp_path / "fashion-cloud-1.0.0"
        async with running(first, folder=tmp_path, versions_max=1) as pool:
            old = pool.find("fashion-cloud")
            await pool.load("fashion-cloud")
            asked = [asyncio.create_task(old.batcher.infer(golden[:8], 1e12)) for _ in range(50)]
            await asyncio.sleep(0)
            await pool.drain()
            assert all(task.done() for task in asked)
            assert len(await asyncio.gather(*asked)) == 50

    play(scenario)


def test_unloading_the_active_version_leaves_the_name_to_the_newest_left(tmp_path: Path) -> None:
    new, old = tiny(tmp_path, version="2.0.0"), tiny(tmp_path, version="1.0.0")

    async def scenario() -> None:
        async with running(new, old) as pool:
            await pool.unload("tiny", "2.0.0")
            assert pool.find("tiny").version == "1.0.0"

    play(scenario)


def test_a_load_that_nobody_waits_for_any_more_still_ends(tmp_path: Path) -> None:
    tiny(tmp_path, "other")

    async def scenario() -> None:
        async with running(tiny(tmp_path), folder=tmp_path) as pool:
            impatient = asyncio.create_task(pool.load("other"))
            patient = asyncio.create_task(pool.load("other"))
            await until(lambda: bool(pool._loads._under_way))
            impatient.cancel()
            assert (await patient) is pool.find("other")

    play(scenario)


# bundles that are no good


@pytest.mark.parametrize("harm", ["hash", "golden", "graph"])
def test_a_bad_bundle_leaves_the_active_version_alone_and_says_why(
    tmp_path: Path, harm: str
) -> None:
    good, bad = tiny(tmp_path), tiny(tmp_path, version="2.0.0")
    expected: dict[str, tuple[type[HybridgeError], str]] = {
        "hash": (NotTrusted, "has sha256"),
        "golden": (Unavailable, "answers differ from the reference"),
        "graph": (Unavailable, "cannot load it"),
    }
    if harm == "hash":
        spoil(bad)
    else:
        other = write_tiny_bundle(tmp_path / "o" / "x", name="tiny", version="2.0.0", shift=1)
        manifest = json.loads((bad / "manifest.json").read_text())
        if harm == "golden":  # of a model with other answers
            shutil.copy(other / "golden.npz", bad / "golden.npz")
            made = json.loads((other / "manifest.json").read_text())
            manifest["golden"]["file"] = made["golden"]["file"]
        else:
            graph = bad / "variants" / "model.onnx"
            graph.write_bytes(b"no graph")
            digest = hashlib.sha256(b"no graph").hexdigest()
            for variant in manifest["variants"]:
                variant["file"].update(bytes=8, sha256=digest)
        (bad / "manifest.json").write_text(json.dumps(manifest))
    kind, words = expected[harm]

    async def scenario() -> None:
        async with running(good, folder=tmp_path) as pool:
            before = pool.find("tiny")
            with pytest.raises(kind, match=words):
                await pool.load("tiny")
            assert pool.find("tiny") is before
            assert await label(before) == 1
            assert state(pool, "tiny", "1.0.0") == ("READY", "")
            told, reason = state(pool, "tiny", "2.0.0")
            assert told == "UNAVAILABLE"
            assert words in reason

    play(scenario)


def test_a_bundle_that_changes_between_look_and_load_is_not_trusted(tmp_path: Path) -> None:
    first, second = tiny(tmp_path), tiny(tmp_path, version="2.0.0")
    sources = Sources([ModelSettings(bundle=first)], tmp_path, 10)
    sources.read()
    found = sources.newest("tiny")
    assert found is not None
    rewrite(second, version="3.0.0")
    with pytest.raises(NotTrusted, match="changed while it was loaded; load tiny again"):
        load(found, size_max=1, cache_dir=tmp_path / "c")


def test_a_bundle_in_the_folder_that_was_exchanged_is_found_anew(tmp_path: Path) -> None:
    tiny(tmp_path, version="2.0.0")

    async def scenario() -> None:
        async with running(tiny(tmp_path), folder=tmp_path) as pool:
            rewrite(tmp_path / "tiny-2.0.0", version="7.0.0")
            assert (await pool.load("tiny")).version == "7.0.0"

    play(scenario)


def rewrite(bundle: Path, **members: object) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    (bundle / "manifest.json").write_text(json.dumps({**manifest, **members}))


def test_a_bad_configured_bundle_stops_the_start(tmp_path: Path) -> None:
    bundle = tiny(tmp_path)
    spoil(bundle)

    async def scenario() -> None:
        async with running(bundle):
            pass

    with pytest.raises(NotTrusted, match="has sha256"):
        play(scenario)


def test_an_entry_of_the_folder_that_is_no_bundle_is_listed_with_its_reason(
    tmp_path: Path,
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / ".partial").mkdir()  # what an unpacking leaves while it works
    (tmp_path / "junk.hyb").write_bytes(b"junk")
    (tmp_path / "README").write_text("not looked at")

    async def scenario() -> None:
        async with running(tiny(tmp_path), folder=tmp_path) as pool:
            assert state(pool, "empty", "")[0] == "UNAVAILABLE"
            assert "no zstandard frame" in state(pool, "junk.hyb", "")[1]
            assert len(pool.index()) == 3

    play(scenario)


def test_a_folder_of_too_much_is_refused(tmp_path: Path) -> None:
    for n in range(3):
        tiny(tmp_path, f"m{n}")

    async def scenario() -> None:
        async with running(tmp_path / "m0-1.0.0", folder=tmp_path, bundles_max=2):
            pass

    with pytest.raises(TooLarge, match="3 bundles; at most 2 are read"):
        play(scenario)


def test_after_a_failure_requests_start_no_other_load_for_a_while(tmp_path: Path) -> None:
    bad = tiny(tmp_path, "bad")
    graph = (bad / "variants" / "model.onnx").read_bytes()
    spoil(bad)
    clock = Clock()

    async def scenario() -> None:
        async with running(tiny(tmp_path), folder=tmp_path, now=clock, retry_s=30.0) as pool:
            with pytest.raises(Loading):
                pool.find("bad")
            await loaded(pool, "bad")
            clock.now += 10
            with pytest.raises(
                NotLoaded, match=r"bad 1.0.0 could not be loaded; the index"
            ) as told:
                pool.find("bad")
            assert told.value.retry_after_s == pytest.approx(20)
            assert not pool._loads._under_way
            (bad / "variants" / "model.onnx").write_bytes(graph)
            clock.now += 20
            with pytest.raises(Loading):
                pool.find("bad")
            await loaded(pool, "bad")
            assert pool.find("bad").name == "bad"
            pool._loads.retire(Key("bad", "1.0.0"))
            assert state(pool, "bad") == ("UNAVAILABLE", "not loaded")

    play(scenario)


# memory


def needs(bundle: Path) -> int:
    """What a tiny model is estimated at before it loads."""
    return estimate_bytes(open_bundle(bundle).manifest, size_max=8, remote=False)


def weights(bundle: Path) -> int:
    """What it is taken to occupy afterwards, in a process that says it did not grow."""
    return open_bundle(bundle).manifest.variants[0].file.bytes


def test_the_least_recently_used_makes_room_and_comes_back_when_asked_for(
    tmp_path: Path,
) -> None:
    a, *_ = bundles = [tiny(tmp_path, name) for name in "abc"]
    assert weights(a) < needs(a)
    most = needs(a) + 2 * weights(a) - 1  # two and nearly a third
    clock = Clock()

    async def scenario() -> None:
        async with running(
            *bundles[:2], folder=tmp_path, memory_bytes_max=most, now=clock, quiet=True
        ) as pool:
            clock.now += 1
            pool.find("a")
            await pool.load("c")
            assert {served.name for served in pool.served} == {"a", "c"}
            clock.now += 1
            pool.find("c")
            with pytest.raises(Loading):
                pool.find("b")
            assert pool.ready
            await loaded(pool, "b")
            assert pool.find("b").name == "b"

    play(scenario)


def test_a_pinned_model_stays_and_who_cannot_fit_beside_it_is_told_what_to_do(
    tmp_path: Path,
) -> None:
    a, b = tiny(tmp_path, "a"), tiny(tmp_path, "b")
    pinned = ModelSettings(bundle=a, pinned=True)

    async def scenario() -> None:
        async with running(
            pinned, folder=tmp_path, memory_bytes_max=needs(b) + weights(a) - 1, quiet=True
        ) as pool:
            with pytest.raises(TooLarge, match=r"b 1.0.0 needs .* beside a 1.0.0, which stay"):
                await pool.load("b")
            assert [served.name for served in pool.served] == ["a"]
            assert "pool.memory_bytes_max" in state(pool, "b")[1]

    play(scenario)


def test_a_model_that_grows_past_the_quota_is_closed_again(tmp_path: Path) -> None:
    a, b = tiny(tmp_path, "a"), tiny(tmp_path, "b")
    sizes = iter([0, weights(a), 0, 10**9])  # before and after each load
    most = 10**8

    async def scenario() -> None:
        async with running(
            ModelSettings(bundle=a, pinned=True), folder=tmp_path, memory_bytes_max=most,
            process_bytes=lambda: next(sizes),
        ) as pool:  # fmt: skip
            with pytest.raises(TooLarge, match=r"b 1.0.0 needs 953.7 MiB"):
                await pool.load("b")
            assert [served.name for served in pool.served] == ["a"]
            with pytest.raises(NotLoaded, match="could not be loaded"):
                pool.find("b")
            assert "953.7 MiB" in state(pool, "b")[1]
            assert b.exists()

    play(scenario)


def test_a_busy_model_is_not_unloaded_for_another(tmp_path: Path) -> None:
    slow, other = fashion(tmp_path, "1.0.0"), tiny(tmp_path, "b")
    most = needs(slow) + needs(other) - 1
    sizes = iter([0, needs(slow), 0, 0])
    golden = open_bundle(slow).golden.inputs

    async def scenario() -> None:
        async with running(
            slow, folder=tmp_path, memory_bytes_max=most, process_bytes=lambda: next(sizes)
        ) as pool:
            batcher = pool.find("fashion-cloud").batcher
            asked = [asyncio.create_task(batcher.infer(golden[:8], 1e12)) for _ in range(100)]
            await asyncio.sleep(0)
            with pytest.raises(Overloaded, match="has work in hand; try again"):
                await pool.load("b")
            with pytest.raises(NotLoaded, match="could not be loaded") as told:
                pool.find("b")
            assert told.value.retry_after_s is not None
            assert told.value.retry_after_s <= 1.0
            await asyncio.gather(*asked)
            await pool.load("b")
            assert [served.name for served in pool.served] == ["b"]

    play(scenario)
