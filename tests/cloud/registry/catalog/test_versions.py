"""Models, versions, data sets, deltas and trust metadata: what is taken and what is refused."""

from dataclasses import replace

import pytest
from pydantic import ValidationError

from cloud.registry.catalog import bounds
from cloud.registry.catalog.checklist import missing
from cloud.registry.catalog.commands import (
    AddDataSet,
    AddDelta,
    Approve,
    Promote,
    PublishTrust,
    Reject,
    SetModel,
)
from cloud.registry.documents import DataSet, Delta, Gate, State
from shared.errors import Conflict, Malformed, Overloaded, TooLarge, Unknown
from tests.cloud.registry.catalog.world import World, passed, register, sha256, stored, trust

GATE = Gate(approval="rule")


@pytest.fixture
def world():
    world = World()
    world.do(SetModel("m", "ann", GATE))
    return world


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a/b",
        "..",
        "../m",
        "a\x00",
        "a\nb",
        "M",
        "-m",
        "m" * 65,
        "a" * 10_000,
        "\ud800",
        "mo del",
    ],
)
def test_a_models_name_is_plain_or_refused(name):
    world = World()
    with pytest.raises(Malformed, match=r"model name .* use 1 to 64 of a-z") as refused:
        world.do(SetModel(name, "ann", GATE))
    assert len(str(refused.value)) < 1_000
    assert not world.log


def test_a_model_is_made_with_the_callers_name_and_the_default_gate():
    world = World()
    world.do(SetModel("m", None, None), "bob")
    model = world.model()
    assert (model.owner, model.gate, model.current, model.revision) == ("bob", Gate(), None, 1)


def test_a_model_set_as_it_is_changes_nothing(world):
    assert world.do(SetModel("m", "ann", GATE)) == []


def test_of_two_who_saw_the_same_revision_the_second_is_refused(world):
    seen = world.model().revision
    world.do(SetModel("m", "bob", None, seen))
    with pytest.raises(Conflict, match="at revision 2, you saw 1; look again"):
        world.do(SetModel("m", "eve", None, seen))
    assert world.model().owner == "bob"


def test_revision_0_makes_a_model_and_changes_none(world):
    world.do(SetModel("n", "bob", GATE, 0))
    with pytest.raises(Conflict, match="model m is there already"):
        world.do(SetModel("m", "eve", Gate(), 0))
    with pytest.raises(Conflict, match="model x is not here"):
        world.do(SetModel("x", "eve", Gate(), 7))


def test_a_rule_that_does_not_parse_makes_no_gate(world):
    with pytest.raises(Malformed):
        world.do(SetModel("m", None, Gate(rules="accuracy >=")))
    assert world.model().gate == GATE


def test_models_are_bounded():
    world = World(models_max=1)
    world.do(SetModel("m", "ann", GATE))
    with pytest.raises(Overloaded, match="raise models_max"):
        world.do(SetModel("n", "ann", GATE))
    world.do(SetModel("m", "bob", None))


def test_a_version_is_registered_with_what_its_manifest_says_and_waits_for_its_evaluation(world):
    command = register()
    made = world.do(command, "bob")
    assert [entry.kind for entry in made] == ["version.registered", "evaluation.queued"]
    version = world.version()
    assert (version.state, version.pushed_by, version.revision) == (State.TRAINED, "bob", 2)
    assert {file.path for file in version.files} == {"model.onnx", "golden.npz", "card.md"}
    assert version.lineage == command.manifest.lineage.model_dump(mode="json")
    evaluation = world.view.evaluation(command.evaluation_id)
    assert (evaluation.state, evaluation.version) == ("queued", "1.0.0")


def test_the_same_version_again_is_no_change_and_another_of_its_number_is_refused(world):
    world.do(register())
    assert world.do(register()) == []
    with pytest.raises(Conflict, match=r"m 1\.0\.0 is there already with other content"):
        world.do(register(content="other"))
    assert len(world.log) == 3


@pytest.mark.parametrize("version", ["01.0.0", "1.00.0", "1.0.00"])
def test_two_versions_of_one_rank_cannot_be(world, version):
    with pytest.raises(ValidationError, match="version"):  # no manifest has it
        register(version)
    with pytest.raises(Malformed, match="without leading zeros"):
        bounds.checked_version(version)


def test_a_version_of_no_model_is_refused(world):
    with pytest.raises(Unknown, match="there is no model other; make it first"):
        world.do(register(name="other"))


def test_a_parent_is_a_version_of_the_same_model_that_is_there(world):
    world.do(SetModel("n", "ann", GATE))
    world.do(register("2.0.0", "n"))
    with pytest.raises(Unknown, match=r"there is no m '2\.0\.0', its parent"):
        world.do(register("1.0.0", parent="2.0.0"))
    world.do(register("1.0.0"))
    world.do(register("1.0.1", parent="1.0.0"))
    assert world.version("1.0.1").origin.parent == "1.0.0"


def test_cyclic_lineage_is_refused(world):
    with pytest.raises(Conflict, match=r"m 1\.0\.0 names itself as its parent: .* cycle"):
        world.do(register("1.0.0", parent="1.0.0"))
    # of a longer cycle the first member would have to come before its parent
    with pytest.raises(Unknown, match="register that first"):
        world.do(register("1.0.0", parent="1.0.1"))
    world.do(register("1.0.0"))
    world.do(register("1.0.1", parent="1.0.0"))
    with pytest.raises(Conflict, match="already with other content"):
        world.do(register("1.0.0", parent="1.0.1", content="again"))


def test_versions_are_bounded():
    world = World(versions_max=1)
    world.do(SetModel("m", "ann", GATE))
    world.do(register("1.0.0"))
    with pytest.raises(Overloaded, match="raise versions_max"):
        world.do(register("1.0.1"))


def _deep(levels):
    tree = 1
    for _ in range(levels):
        tree = {"a": tree}
    return tree


@pytest.mark.parametrize(
    ("hyperparameters", "error", "words"),
    [
        ({"a": _deep(200)}, TooLarge, r"m 1\.0\.0: lineage.hyperparameters is nested over 16 deep"),
        ({"a": [0] * 30_000}, TooLarge, r"lineage\.hyperparameters has more than 20000 values"),
        ({"a": "x" * 300_000}, TooLarge, "keep long metadata in an artifact"),
        ({"a": "\x00"}, Malformed, r"lineage\.hyperparameters has the control character U\+0000"),
        ({"\x1b]0;": 1}, Malformed, r"lineage\.hyperparameters has the control character U\+001B"),
        ({"a": 2**70}, Malformed, r"lineage\.hyperparameters has an integer of over 64 bits"),
    ],
)
def test_metadata_bombs_are_refused_and_leave_nothing(world, hyperparameters, error, words):
    with pytest.raises(error, match=words):
        world.do(register(lineage={"hyperparameters": hyperparameters}))
    assert world.view.version("m", "1.0.0") is None
    assert len(world.log) == 1


def test_text_that_is_not_text_is_refused_wherever_it_stands(world):
    world.candidate()
    for comment in ("a\x00b", "\x1b[2J"):
        with pytest.raises(Malformed, match="control character"):
            world.do(Reject("m", "1.0.0", comment))
    with pytest.raises(Malformed, match="comment"):
        world.do(Reject("m", "1.0.0", "x" * 2001))
    assert world.version().state is State.CANDIDATE


def test_a_word_of_a_person_says_why(world):
    world.candidate()
    with pytest.raises(Malformed, match="say why"):
        world.do(Approve("m", "1.0.0", "  "))


def test_an_approver_approves_once_and_a_stale_look_is_refused(world):
    seen = world.candidate().revision
    world.do(Approve("m", "1.0.0", "good", seen), "eve")
    assert world.version().approval.by == "eve"
    with pytest.raises(Conflict, match="has changed since"):
        world.do(Reject("m", "1.0.0", "bad", seen), "zoe")
    with pytest.raises(Conflict, match="was approved by eve already"):
        world.do(Approve("m", "1.0.0", "me too"), "zoe")


def test_a_word_for_another_gate_counts_no_more(world):
    world.do(SetModel("m", None, Gate(approval="person")))
    world.candidate()
    world.do(Approve("m", "1.0.0", "good"), "eve")
    world.do(SetModel("m", None, Gate(approval="person", rules="f1 >= 0.5")))
    lacks = missing(world.version(), world.model(), None, trust=True)
    assert any("approved before the gate was changed" in one for one in lacks)
    world.do(Approve("m", "1.0.0", "good by this one, too"), "zoe")
    lacks = missing(world.version(), world.model(), None, trust=True)
    assert not any("approve" in one for one in lacks)


def test_what_was_not_measured_is_not_approved(world):
    world.do(register())
    with pytest.raises(Conflict, match="is trained; only one that is candidate can be approved"):
        world.approve()


def test_a_veto_ends_a_version_and_its_evaluations(world):
    command = register()
    world.do(command)
    claimed = world.claim()
    made = world.do(Reject("m", "1.0.0", "wrong data"), "eve")
    assert [entry.kind for entry in made] == ["version.rejected", "evaluation.ended"]
    assert world.version().state is State.REJECTED
    assert world.version().why == "rejected: wrong data"
    with pytest.raises(Conflict, match=r"is broken .*rejected"):
        world.do(passed(claimed))


def test_names_that_are_not_here_are_said_in_a_bounded_line(world):
    for model, version in (("x" * 10_000, "1.0.0"), ("m", "9" * 10_000), ("../m", "1.0.0")):
        with pytest.raises(Unknown) as refused:
            world.do(Reject(model, version, "bad"))
        assert len(str(refused.value)) < 300


def _data_set(version, content="rows", name="eval"):
    return AddDataSet(
        DataSet(
            name=name, version=version, file=stored("e.npz", content), rows=3, pushed_by="x",
            pushed_at=0.0,
        )
    )  # fmt: skip


def test_data_sets_are_numbered_without_gaps_and_never_change(world):
    world.do(_data_set(1), "bob")
    found = world.view.data_set("eval", 1)
    assert (found.pushed_by, found.pushed_at) == ("bob", world.now)
    assert world.do(_data_set(1)) == []
    with pytest.raises(Conflict, match="already with other content"):
        world.do(_data_set(1, "others"))
    with pytest.raises(Conflict, match="the next version of eval is 2"):
        world.do(_data_set(3))
    world.do(_data_set(2, "others"))
    assert world.view.data_set("eval", None).version == 2


def test_data_sets_are_bounded():
    world = World(data_sets_max=1)
    world.do(_data_set(1))
    with pytest.raises(Overloaded, match="raise data_sets_max"):
        world.do(_data_set(1, name="other"))


def _delta(old, new, content="d"):
    return AddDelta(
        Delta(from_sha256=sha256(old), to_sha256=sha256(new), sha256=sha256(content), bytes=1)
    )


def test_a_delta_leads_somewhere_else_once_and_few_lead_to_one_file():
    world = World(deltas_max=2)
    world.do(_delta("a", "z"))
    assert world.do(_delta("a", "z")) == []
    with pytest.raises(Conflict, match="there is a delta"):
        world.do(_delta("a", "z", "other"))
    with pytest.raises(Malformed, match="not to itself"):
        world.do(_delta("a", "a"))
    world.do(_delta("b", "z"))
    with pytest.raises(Overloaded, match="has 2 deltas"):
        world.do(_delta("c", "z"))


def test_trust_metadata_rises_and_no_root_is_left_out(world):
    world.do(trust(1))
    assert world.do(trust(1)) == []
    with pytest.raises(Conflict, match=r"version 1 of model-m: the newest here is 1; sign it as 2"):
        world.do(replace(trust(1), file=stored("1.json", "other")))
    world.do(trust(3))
    with pytest.raises(Conflict, match="the newest here is 3"):
        world.do(trust(2))
    root = [PublishTrust("root", n, stored(f"{n}.root.json", str(n))) for n in (1, 2, 3)]
    world.do(root[0])
    with pytest.raises(Conflict, match="the newest here is 1; sign it as 2"):
        world.do(root[2])
    world.do(root[1])


@pytest.mark.parametrize("role", ["", "../root", "a/b", "ROOT", "r" * 81, "r\x00"])
def test_a_trust_roles_name_is_plain(world, role):
    with pytest.raises(Malformed, match="trust role"):
        world.do(PublishTrust(role, 1, stored("f", "x")))


def test_a_promotion_begins_a_higher_epoch(world):
    with pytest.raises(Conflict, match="epoch 1 is not above the present one, 1"):
        world.do(Promote(1, "the home burnt down"))
    world.do(Promote(3, "the home burnt down"))
    assert world.view.head().epoch == 3
    (entry,) = world.do(SetModel("n", "ann", GATE))
    assert entry.epoch == 3
