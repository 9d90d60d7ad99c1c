"""`quantize` and `fp16`: another precision of a bundle's fp32 graph; no weight is fitted."""

import numpy as np
import onnx
from pydantic import JsonValue

from cloud.training import export
from cloud.training.bundles import Graph
from cloud.training.child_messages import Made, Order
from cloud.training.documents import Half, Quantize
from cloud.training.recipes import make_bundle, starting
from cloud.training.recipes.ending import parameters_of
from cloud.training.recipes.ground import answering, base_of, bundle_of, check_is_new
from cloud.training.recipes.make_bundle import RUNTIME, Candidate, Ground, Role, graphs_of
from cloud.training.recipes.saying import Saying
from shared.bundle.manifest import Manifest
from shared.bundle.reader import Bundle

Hyperparameters = dict[str, JsonValue]


def quantize(order: Order, out: Saying) -> Made:
    """Raises `Unknown` for a source without an fp32 graph, `Malformed` for one that loses too much."""
    recipe = order.recipe
    assert isinstance(recipe, Quantize)
    base = base_of(order)
    source = bundle_of(order, recipe.source, base)
    check_is_new(recipe.version, source)
    whole = starting.fp32_graph(source)
    samples = np.ascontiguousarray(base.train.images[: recipe.samples])
    out.said(f"ranges from {len(samples)} images, by {recipe.method}")
    out.stop_if_asked()
    model = onnx.load_from_string(whole)
    by_nncf = recipe.method == "nncf"
    int8 = export.to_int8_by_nncf(model, samples) if by_nncf else export.to_int8(model, samples)
    served = int8.SerializeToString()
    return _made(
        order, source, served, graphs_of(_role(source.manifest), served, whole), whole,
        recipe.version, {"quantize": recipe.model_dump(mode="json")},
    )  # fmt: skip


def half(order: Order, out: Saying) -> Made:
    """As `quantize`; the bundle has an fp16 graph and the fp32 one."""
    recipe = order.recipe
    assert isinstance(recipe, Half)
    source = bundle_of(order, recipe.source, base_of(order))
    check_is_new(recipe.version, source)
    whole = starting.fp32_graph(source)
    out.stop_if_asked()
    served = export.to_fp16(onnx.load_from_string(whole)).SerializeToString()
    role = _role(source.manifest)
    engines = (("onnxruntime", "fp16"), ("openvino", "fp16"))
    graphs = (Graph(f"{role}.fp16", served, engines, RUNTIME), *graphs_of(role, None, whole))
    return _made(
        order, source, served, graphs, whole, recipe.version,
        {"fp16": recipe.model_dump(mode="json")},
    )  # fmt: skip


def _made(
    order: Order, source: Bundle, served: bytes, graphs: tuple[Graph, ...], whole: bytes,
    version: str, hyperparameters: Hyperparameters,
) -> Made:  # fmt: skip
    assert isinstance(order.recipe, Quantize | Half)
    manifest = source.manifest
    candidate = Candidate(
        name=manifest.name, version=version, role=_role(manifest), answers_for=manifest.answers_for,
        graphs=graphs, served=served, fp32=whole, hyperparameters=hyperparameters,
        network=f"as in {manifest.name} {manifest.version}, in another precision",
        parameters=parameters_of(onnx.load_from_string(whole)),
    )  # fmt: skip
    base, ref = base_of(order), order.recipe.teacher
    teacher = None if ref is None else answering(bundle_of(order, ref, base))
    ground = Ground(
        base=base, parent=answering(source), teacher=teacher, dictionary=source.dictionary or None
    )
    return make_bundle.make(candidate, ground, order.folder / "bundle")


def _role(manifest: Manifest) -> Role:
    """Who has thresholds escalates."""
    return "edge" if manifest.calibration.thresholds else "cloud"
