from typing import Any

import pytest

from cloud.registry.catalog.checklist import missing
from cloud.registry.catalog.commands import QueueEvaluation, SetModel
from cloud.registry.documents import Gate, State
from shared.bundle.manifest import Backbone
from tests.cloud.registry.catalog.world import World, new_id, passed
from tests.tiny_bundle import CARD


def lacks(world: World, **more: Any) -> str:
    version = world.version()
    evaluation = world.view.evaluation(version.evaluation or "")
    return "; ".join(missing(version, world.model(), evaluation, **{"trust": True, **more}))


@pytest.fixture
def world():
    world = World()
    world.candidate()
    return world


def test_a_candidate_that_has_all_lacks_nothing(world):
    assert lacks(world) == ""


def test_signed_metadata(world):
    assert "no signed metadata names it" in lacks(world, trust=False)


def test_files(world):
    assert "1 of its files are not in the artifact store" in lacks(world, artifacts_missing={"a"})


def test_an_approval_where_the_gate_asks_for_a_person():
    world = World()
    world.do(SetModel("m", "ann", Gate(approval="person")))
    world.candidate()
    assert "no approver has approved it" in lacks(world)
    world.approve()
    assert lacks(world) == ""


def test_an_evaluation(world):
    assert "no evaluation of it has ended" in "".join(
        missing(world.version(), world.model(), None, trust=True)
    )


def test_an_evaluation_under_the_gate_as_it_is(world):
    world.do(SetModel("m", None, Gate(approval="rule", rules="accuracy >= 0.5")))
    assert "the gate was changed after its evaluation began" in lacks(world)
    world.do(QueueEvaluation("m", "1.0.0", new_id()))
    world.do(passed(world.claim()))
    assert lacks(world) == ""


def test_every_engine_of_the_gate():
    world = World()
    world.do(SetModel("m", "ann", Gate(approval="rule", engines=("onnxruntime", "openvino"))))
    world.candidate()
    assert "not measured on openvino" in lacks(world)


def test_the_gates_data_set():
    world = World()
    world.do(SetModel("m", "ann", Gate(approval="rule", data_set="eval")))
    world.candidate()
    assert "not measured on the gate's data set eval" in lacks(world)
    world.do(QueueEvaluation("m", "1.0.0", new_id()))
    world.do(passed(world.claim(), data_set="eval 3"))
    assert lacks(world) == ""


def test_hardware(world):
    version = world.version()
    evaluation = world.view.evaluation(version.evaluation).model_copy(update={"hardware": None})
    assert "on which hardware" in "".join(missing(version, world.model(), evaluation, trust=True))


def test_a_model_card_and_lineage():
    world = World()
    world.candidate(card="", lineage={"data_set": "", "code_version": ""})
    found = lacks(world)
    assert "its model card is empty" in found
    assert "its training data" in found
    assert "its code version" in found


def test_a_model_card_that_leaves_out_what_people_must_know():
    world = World()
    world.candidate()
    assert "says nothing of training data, limits; write that" in lacks(
        world, card="# Task: boxes\nFailure modes: rain"
    )
    assert "model card" not in lacks(world, card=CARD.decode().upper())


def test_a_released_backbone():
    world = World()
    world.candidate("1.0.0", backbone=Backbone(name="b", version="2.0.0"))
    assert "its backbone b 2.0.0 is not here" in lacks(world)
    assert "is candidate; release it first" in lacks(world, backbone=State.CANDIDATE)
    assert lacks(world, backbone=State.RELEASED) == ""


def test_a_state_to_release_from(world):
    version = world.version().model_copy(update={"state": State.TRAINED, "why": "registered"})
    assert "it is trained, not a candidate: registered" in "".join(
        missing(version, world.model(), None, trust=True)
    )
    deleted = version.model_copy(update={"state": State.RETIRED, "deleted": True})
    assert "it is deleted" in missing(deleted, world.model(), None, trust=True)
