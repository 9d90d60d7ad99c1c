"""Each recipe from its order to a bundle that opens; needs torch (`make test-train`)."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cloud.feedback.data_file import content_hash
from cloud.training import figure_names
from cloud.training.child_messages import Made, Order
from cloud.training.recipes.saying import Saying
from shared.bundle.reader import Bundle, open_bundle
from shared.engines.onnxruntime_engine import OnnxRuntimeEngine
from shared.engines.openvino_engine import OpenVinoEngine
from shared.engines.ranking import choose
from shared.errors import HybridgeError
from tests.cloud.training.recipes.materials import NAMES, feedback, write_base, write_feedback

pytestmark = pytest.mark.train

FITTING = {"epochs": 10, "batch": 64, "optimizer": "sgd", "learning_rate": 0.1}
SMALL = {"base": "small", "version": "1.0.0"}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Workshop:
    """One folder, one base data file, and the bundles that were made, by what refers to them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._base = write_base(folder / "base.npz")
        self._bundles: dict[str, Path] = {}
        self.said: list[bytes] = []
        """Every line of the newest job."""

    def make(self, into: str, data_set: Path | None = None, **recipe: object) -> Made:
        from cloud.training.recipes.table import RECIPES

        order = Order.model_validate({
            "job": into, "recipe": {**SMALL, **recipe}, "folder": self._folder / into,
            "bundles": self._bundles, "base": self._base, "data_set": data_set,
        })  # fmt: skip
        self.said = []
        made = RECIPES[order.recipe.kind](order, Saying(self.said.append))
        self._bundles[f"{made.name}@{made.version}"] = self._folder / into / "bundle"
        return made

    def opened(self, made: Made) -> Bundle:
        return open_bundle(self._bundles[f"{made.name}@{made.version}"])


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    shop = Workshop(tmp_path_factory.mktemp("recipes"))
    shop.make("big", kind="supervised", name="big", network="cloud-net", fitting={
        **FITTING, "epochs": 2,
    })  # fmt: skip
    shop.make("small", kind="distill", name="small", network="edge-net", teacher="big@1.0.0",
              fitting=FITTING)  # fmt: skip
    return shop


def runs(bundle: Bundle) -> None:
    for engine in (OnnxRuntimeEngine(), OpenVinoEngine()):
        chosen = choose(bundle, [engine], measure_s_max=0.05)
        assert chosen.session.run(bundle.golden.inputs[:2]).shape == (2, len(NAMES))


def test_a_supervised_cloud_model_has_no_thresholds(workshop: Workshop) -> None:
    big = open_bundle(workshop._bundles["big@1.0.0"])
    assert big.manifest.calibration.thresholds == ()
    assert big.manifest.labels == NAMES


def test_a_distilled_edge_model_is_a_whole_bundle(workshop: Workshop) -> None:
    small = open_bundle(workshop._bundles["small@1.0.0"])
    assert small.manifest.calibration.default_threshold == "loss-5-per-mille"
    assert small.manifest.lineage.hyperparameters["teacher"] == "big@1.0.0"
    assert small.dictionary == open_bundle(workshop._bundles["big@1.0.0"]).dictionary
    runs(small)


def test_fine_tuning_on_feedback(workshop: Workshop, tmp_path: Path) -> None:
    rows = feedback()
    made = workshop.make(
        "tuned", write_feedback(tmp_path / "d.npz", rows), kind="finetune", version="1.0.1",
        student="small@1.0.0", teacher="big@1.0.0", replay_rows=200, fitting=FITTING,
    )  # fmt: skip
    bundle = workshop.opened(made)
    runs(bundle)
    lineage = bundle.manifest.lineage
    assert lineage.data_sha256 == content_hash(rows)
    assert lineage.hyperparameters["parent"] == "small@1.0.0"
    assert made.figures == lineage.metrics
    assert made.figures[figure_names.holdout_rows("all")] == 60
    assert made.figures[figure_names.holdout_rows("person")] == 30
    assert made.figures[figure_names.CLEAN] > 0.9
    assert made.figures[figure_names.holdout_accuracy("all")] > 0.9
    assert "30 labelled by people" in bundle.manifest.calibration.thresholds[0].guarantee.statement
    assert bundle.dictionary == open_bundle(workshop._bundles["small@1.0.0"]).dictionary


def test_the_same_order_makes_the_same_bundle(workshop: Workshop, tmp_path: Path) -> None:
    data = write_feedback(tmp_path / "d.npz", feedback())
    manifests = [
        workshop.opened(
            workshop.make(
                into,
                data,
                kind="finetune",
                version="1.0.9",
                student="small@1.0.0",
                replay_rows=100,
                fitting={**FITTING, "epochs": 2},
            )
        ).manifest
        for into in ("once", "again")
    ]
    first, second = (  # the code's version may change while others commit
        manifest.model_copy(
            update={"lineage": manifest.lineage.model_copy(update={"code_version": ""})}
        )
        for manifest in manifests
    )
    assert first == second


def test_what_a_person_said_outweighs_the_cloud(workshop: Workshop, tmp_path: Path) -> None:
    rows = feedback()
    people = replace(
        rows, labels=(rows.labels + 1) % 3, sources=np.zeros(len(rows.labels), np.uint8)
    )
    made = workshop.make(
        "people", write_feedback(tmp_path / "d.npz", people), kind="finetune", version="1.0.2",
        student="small@1.0.0", replay_rows=0, imitate=0, fitting={**FITTING, "epochs": 12},
    )  # fmt: skip
    assert made.figures[figure_names.holdout_accuracy("person")] > 0.8


@pytest.mark.parametrize("recipe", [
    {"kind": "distill", "name": "small", "network": "edge-net", "teacher": "big@1.0.0"},
    {"kind": "prune", "source": "small@1.0.0", "teacher": "big@1.0.0"},
    {"kind": "finetune", "student": "small@1.0.0", "replay_rows": 100},
], ids=lambda recipe: str(recipe["kind"]))  # fmt: skip
def test_fitting_ends_where_nothing_gets_better(
    workshop: Workshop, tmp_path: Path, recipe: dict[str, object]
) -> None:
    workshop.make(
        f"plateau-{recipe['kind']}", write_feedback(tmp_path / "d.npz", feedback()), **recipe,
        version="1.0.7", fitting={"epochs": 40, "learning_rate": 1e-6, "patience": 1},
    )  # fmt: skip
    epochs = sum(b'"validation.loss"' in line for line in workshop.said)
    assert 2 <= epochs < 40
    assert any(b"no better validation loss in 1 epochs" in line for line in workshop.said)


@pytest.mark.parametrize("method", ["onnxruntime", "nncf"])
def test_quantizing(workshop: Workshop, method: str) -> None:
    made = workshop.make(
        f"int8-{method}", kind="quantize", version="1.0.3", source="small@1.0.0", method=method,
        samples=64, teacher="big@1.0.0",
    )  # fmt: skip
    runs(workshop.opened(made))
    assert made.figures[figure_names.CLEAN] > made.figures[figure_names.CLEAN_PARENT] - 0.03


def test_halving(workshop: Workshop) -> None:
    made = workshop.make("half", kind="fp16", version="1.0.4", source="small@1.0.0")
    bundle = workshop.opened(made)
    runs(bundle)
    sizes = {v.precision: v.file.bytes for v in bundle.manifest.variants}
    assert sizes["fp16"] < 0.6 * sizes["fp32"]
    assert "taken for right" in bundle.manifest.calibration.thresholds[0].guarantee.statement


@pytest.mark.parametrize(("source", "parameters"), [("small", 29_667), ("big", 371_000)])
def test_pruning_makes_a_smaller_graph(workshop: Workshop, source: str, parameters: int) -> None:
    made = workshop.make(
        f"pruned-{source}", kind="prune", version="1.0.5", source=f"{source}@1.0.0",
        channels_share=0.25, fitting={**FITTING, "epochs": 2},
    )  # fmt: skip
    runs(workshop.opened(made))
    assert made.figures[figure_names.PARAMETERS] == pytest.approx(parameters, rel=0.02)
    assert made.figures[figure_names.CLEAN] > 0.8


def training_data(bundle: Bundle) -> str:
    (line,) = [
        one for one in (bundle.read(bundle.manifest.card).decode()).splitlines()
        if one.startswith("Training data: ")
    ]  # fmt: skip
    return line.removeprefix("Training data: ")


def test_the_card_says_who_taught(workshop: Workshop, tmp_path: Path) -> None:
    data, short = write_feedback(tmp_path / "d.npz", feedback()), {**FITTING, "epochs": 1}
    images = "images of base.npz with their labels"
    tuned = workshop.make(
        "who-tuned", data, kind="finetune", version="1.1.0", student="small@1.0.0",
        teacher="big@1.0.0", replay_rows=100, fitting=short,
    )  # fmt: skip
    said = training_data(workshop.opened(tuned))
    assert said.startswith(f"{images}; soft labels of these by small 1.0.0; ")
    assert "big" not in said
    alone = workshop.make(
        "who-alone", data, kind="finetune", version="1.1.1", student="small@1.0.0",
        replay_rows=0, imitate=0, fitting=short,
    )  # fmt: skip
    assert training_data(workshop.opened(alone)).startswith("180 samples from the field, ")
    pruned = workshop.make(
        "who-pruned", kind="prune", version="1.1.2", source="small@1.0.0", teacher="big@1.0.0",
        fitting=short,
    )  # fmt: skip
    assert training_data(workshop.opened(pruned)) == (
        f"{images}; soft labels of these by big 1.0.0."
    )  # fmt: skip
    half = workshop.make(
        "who-half", kind="fp16", version="1.1.3", source="small@1.0.0", teacher="big@1.0.0"
    )
    assert training_data(workshop.opened(half)) == (
        "none of its own, its weights are those of small 1.0.0."
    )
    assert training_data(open_bundle(workshop._bundles["big@1.0.0"])) == f"{images}."


def test_a_distilled_cloud_model_names_its_teacher(workshop: Workshop) -> None:
    made = workshop.make(
        "taught", kind="distill", name="taught", network="cloud-net", teacher="big@1.0.0",
        fitting={**FITTING, "epochs": 1},
    )  # fmt: skip
    bundle = workshop.opened(made)
    assert bundle.manifest.lineage.hyperparameters["teacher"] == "big@1.0.0"
    assert "soft labels of these by big 1.0.0" in training_data(bundle)


def test_feedback_that_cannot_teach_fails_before_any_step(
    workshop: Workshop, tmp_path: Path
) -> None:
    rows = feedback()
    single = write_feedback(tmp_path / "d.npz", replace(rows, labels=rows.labels * 0))
    with pytest.raises(HybridgeError, match="a model would learn to say nothing else"):
        workshop.make("none", single, kind="finetune", version="1.0.6", student="small@1.0.0")
    assert not (workshop._folder / "none" / "checkpoints").exists()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"version": "1.0.0"}, "version: small@1.0.0 has it; give what it makes another"),
        ({"field_rows": 0, "replay_rows": 0}, "turns: no row is in any epoch"),
    ],
)
def test_a_fine_tune_that_makes_nothing_new_is_refused(
    workshop: Workshop, tmp_path: Path, asked: dict[str, object], words: str
) -> None:
    data = write_feedback(tmp_path / "d.npz", feedback())
    recipe = {"kind": "finetune", "version": "1.0.6", "student": "small@1.0.0"} | asked
    with pytest.raises(HybridgeError, match=words):
        workshop.make("none", data, **recipe)


@pytest.mark.parametrize("kind", ["prune", "quantize", "fp16"])
def test_a_version_that_the_source_has_is_refused(workshop: Workshop, kind: str) -> None:
    words = "version: small@1.0.0 has it; give what it makes another"
    with pytest.raises(HybridgeError, match=words):
        workshop.make("none", kind=kind, version="1.0.0", source="small@1.0.0")


def test_a_bundle_that_nobody_brought_is_named(workshop: Workshop) -> None:
    with pytest.raises(HybridgeError, match=r"other@1\.0\.0: the worker brought no such bundle"):
        workshop.make("none", kind="fp16", version="1.0.6", source="other@1.0.0")


def test_a_bundle_that_is_not_the_one_that_was_named_is_refused(
    workshop: Workshop, tmp_path: Path
) -> None:
    from cloud.training.recipes.table import RECIPES

    order = Order.model_validate({
        "job": "x", "folder": tmp_path, "base": workshop._base,
        "recipe": {**SMALL, "version": "1.0.6", "kind": "fp16", "source": "small@1.0.0"},
        "bundles": {"small@1.0.0": workshop._bundles["big@1.0.0"]},
    })  # fmt: skip
    with pytest.raises(
        HybridgeError, match=r"small@1\.0\.0: what the worker brought is big@1\.0\.0"
    ):
        RECIPES["fp16"](order, Saying(lambda _: None))


def test_what_rows_are_made_from_is_told_apart(workshop: Workshop, tmp_path: Path) -> None:
    from cloud.training.recipes import base_data, ground

    base = base_data.load(workshop._base)
    other = base_data.load(
        write_base(tmp_path / "b.npz", train_labels=np.arange(400, dtype=np.int64) % 3)
    )
    small, big = (open_bundle(workshop._bundles[ref]) for ref in ("small@1.0.0", "big@1.0.0"))
    found = [
        ground.hashes(base), ground.hashes(other), ground.hashes(base, small),
        ground.hashes(base, big), ground.hashes(base, small, big), ground.hashes(base, small, None),
        ground.hashes(base, small, data_set="a" * 64), ground.hashes(base, small, data_set="b" * 64),
    ]  # fmt: skip
    assert len(set(found)) == len(found)
    assert ground.hashes(base, open_bundle(workshop._bundles["small@1.0.0"])) == found[2]


def test_base_data_of_another_model_is_refused(workshop: Workshop, tmp_path: Path) -> None:
    from cloud.training.recipes.table import RECIPES

    models = Path(__file__).parents[4] / "models"
    order = Order.model_validate({
        "job": "x", "folder": tmp_path, "base": workshop._base,
        "recipe": {**SMALL, "kind": "fp16", "source": "fashion-edge@1.0.0"},
        "bundles": {"fashion-edge@1.0.0": models / "fashion-edge"},
    })  # fmt: skip
    with pytest.raises(HybridgeError, match="has 10 labels, the base data 3"):
        RECIPES["fp16"](order, Saying(lambda _: None))


RECIPES_OF_A_BUNDLE: list[tuple[str, dict[str, object]]] = [
    ("small", {"kind": "finetune", "student": "small@1.0.0"}),
    ("small", {"kind": "prune", "source": "small@1.0.0"}),
    ("small", {"kind": "quantize", "source": "small@1.0.0"}),
    ("small", {"kind": "fp16", "source": "small@1.0.0"}),
    ("big", {"kind": "distill", "name": "x", "network": "edge-net", "teacher": "big@1.0.0"}),
]


@pytest.mark.parametrize(
    ("named", "recipe"), RECIPES_OF_A_BUNDLE, ids=lambda one: one if isinstance(one, str) else ""
)
def test_base_data_whose_labels_are_others_or_in_another_order_is_refused(
    workshop: Workshop, tmp_path: Path, named: str, recipe: dict[str, object]
) -> None:
    from cloud.training.recipes.table import RECIPES

    order = Order.model_validate({
        "job": "x", "folder": tmp_path, "recipe": {**SMALL, "version": "1.0.6", **recipe},
        "bundles": workshop._bundles,
        "base": write_base(
            tmp_path / "base.npz", names=np.frombuffer(b"dark\nbright\ngrey", np.uint8)
        ),
        "data_set": write_feedback(tmp_path / "d.npz", feedback()),
    })  # fmt: skip
    with pytest.raises(
        HybridgeError, match=f"{named}@1.0.0: its label 1 is 'grey', the base data's 'bright'"
    ):
        RECIPES[order.recipe.kind](order, Saying(lambda _: None))


def test_a_graph_that_does_not_reproduce_its_samples_is_no_bundle(
    workshop: Workshop, tmp_path: Path
) -> None:
    from cloud.training.recipes import make_bundle

    whole = workshop._bundles["small@1.0.0"]
    folder = tmp_path / "bundle"
    folder.mkdir()
    for file in whole.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["golden"]["tolerance"] = dict.fromkeys(manifest["golden"]["tolerance"], 1e-9)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(HybridgeError, match="does not reproduce the golden samples"):
        make_bundle.tried(open_bundle(folder))
