"""One contract for both databases."""

import threading

import pytest

from cloud.feedback.documents import DataSetSpec, Deletion, SampleQuery, Source
from cloud.feedback.settings import FeedbackSettings
from cloud.store.draw import FOLDS, draw_of
from cloud.store.feedback import Bounds
from shared.errors import Conflict, Malformed, NotTrusted, Overloaded, TooLarge, Unknown
from shared.wire.envelope import Payload
from shared.wire.pixels import Encoder, dictionary_id
from tests.cloud.feedback.world import MODEL, NOW, PLENTY, World, row, sample_of, world

ALL = SampleQuery()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'feedback.db'}"
    return request.getfixturevalue("postgres").new_database()


@pytest.fixture
def here(url, tmp_path):
    with world(url, tmp_path) as found:
        yield found


def numbers(here: World, **query: object) -> list[int]:
    """Which of samples 0..99 a query finds, in its order."""
    known = {str(sample_of(number)): number for number in range(100)}
    found, _ = here.store.samples(SampleQuery(**query), limit=500)
    return [known[one.id] for one in found]


def test_a_sample_is_as_it_came(here):
    here.write(row(7, reason="audit", share=0.05))
    here.store.keep_sites({"cam-1": "lyon"})
    found = here.store.sample("cam-1", sample_of(7))
    assert (found.reason, found.share, found.site) == ("audit", 0.05, "lyon")
    assert (found.label, found.label_source, found.labels) == (1, Source.CLOUD, ())
    assert (found.edge_label, found.cloud_label, found.shape, found.bytes) == (2, 1, (4, 4), 16)
    assert found.cloud_confidence == pytest.approx(0.7)
    assert here.store.tensor("cam-1", sample_of(7)).tolist() == [[7] * 4] * 4
    with pytest.raises(Unknown, match="cam-2"):
        here.store.sample("cam-2", sample_of(7))


def test_a_probability_a_little_over_one_is_one(here):
    here.write(row(1, sure=1.0000002))
    assert here.store.sample("cam-1", sample_of(1)).cloud_confidence == 1


def test_what_another_cloud_model_answered_is_found_apart(here):
    here.write(row(0), row(1, cloud_model="other-cloud"))
    assert numbers(here, cloud_model="other-cloud") == [1]
    assert numbers(here, cloud_model="tiny-cloud") == [0]


def test_each_condition_finds_its_own(here):
    here.write(
        row(0, device="cam-2"), row(1, version="1.1.0"), row(2, reason="novel"),
        row(3, label=2), row(4, at=NOW + 10), row(5, sure=0.5), row(6, edge_label=1),
        row(7, model="other"),
    )  # fmt: skip
    here.store.keep_sites({"cam-2": "lyon"})
    everything = [7, 6, 5, 4, 3, 2, 1, 0]
    assert numbers(here) == everything
    assert numbers(here, model=MODEL) == everything[1:]
    assert numbers(here, version="1.1.0") == [1]
    assert numbers(here, device="cam-2") == [0]
    assert numbers(here, site="lyon") == [0]
    assert numbers(here, site="") == everything[:-1]
    assert numbers(here, reason="novel") == [2]
    assert numbers(here, label=2) == [3]
    assert numbers(here, since=NOW + 5) == [4]
    assert numbers(here, until=NOW + 5) == [7, 6, 5, 3, 2, 1, 0]
    assert numbers(here, unsure=0.6) == [5]
    assert numbers(here, disputed=True) == [7, 5, 4, 2, 1, 0]  # 3: the edge said so, too
    here.store.label("cam-1", sample_of(6), 1, "ada", NOW)
    assert numbers(here, source=Source.PERSON) == [6]
    assert numbers(here, unlabelled=True) == [7, 5, 4, 3, 2, 1, 0]
    held = [n for n in everything if draw_of(sample_of(n)) % FOLDS < 0.3 * FOLDS]
    assert numbers(here, holdout=0.3) == held
    assert 0 < len(held) < 8
    assert here.count(SampleQuery(model=MODEL, label=1)) == 6


def test_pages_follow_each_other(here):
    here.write(*(row(number) for number in range(5)))
    first, after = here.store.samples(ALL, limit=2)
    here.write(row(5))  # newer ones do not move what follows
    second, after = here.store.samples(ALL, after, 2)
    third, end = here.store.samples(ALL, after, 2)
    ids = [one.id for one in (*first, *second, *third)]
    assert ids == [str(sample_of(number)) for number in (4, 3, 2, 1, 0)]
    assert end is None


def test_people_outrank_the_cloud_and_each_has_one_word(here):
    here.write(row(1))
    label = here.store.label
    found = label("cam-1", sample_of(1), 0, "ada", NOW, "blurred")
    assert (found.label, found.label_source, found.contradicted) == (0, Source.PERSON, False)
    assert [(one.by, one.comment) for one in found.labels] == [("ada", "blurred")]
    assert label("cam-1", sample_of(1), 2, "ada", NOW + 1).labels[0].label == 2
    assert len(label("cam-1", sample_of(1), 2, "bob", NOW + 2).labels) == 2
    split = label("cam-1", sample_of(1), 1, "bob", NOW + 3)
    assert (split.contradicted, split.label) == (True, 1)
    assert here.store.state().contradicted == 1
    assert numbers(here, contradicted=True) == [1]
    agreed = label("cam-1", sample_of(1), 1, "ada", NOW + 4)
    assert (agreed.contradicted, agreed.label) == (False, 1)
    assert numbers(here, contradicted=True) == []
    assert len(here.store.unlabel("cam-1", sample_of(1), "ada").labels) == 1
    last = here.store.unlabel("cam-1", sample_of(1), "bob")
    assert (last.label, last.label_source) == (1, Source.CLOUD)
    with pytest.raises(Unknown, match="no label by bob"):
        here.store.unlabel("cam-1", sample_of(1), "bob")


def test_a_class_that_the_model_has_not_is_refused(here):
    here.write(row(1))
    with pytest.raises(Malformed, match="has 3 classes"):
        here.store.label("cam-1", sample_of(1), 3, "ada", NOW)


def test_so_many_people_and_no_more(url, tmp_path):
    with world(url, tmp_path, FeedbackSettings(people_max=2)) as here:
        here.write(row(1))
        for by in ("ada", "bob", "ada"):
            here.store.label("cam-1", sample_of(1), 0, by, NOW)
        with pytest.raises(TooLarge, match="2 labels"):
            here.store.label("cam-1", sample_of(1), 0, "eve", NOW)


def some(count: int = 60, devices: int = 4) -> list:
    return [
        row(number, device=f"cam-{number % devices}", label=number % 3, at=NOW + number)
        for number in range(count)
    ]


def test_a_data_set_holds_what_its_spec_takes(here):
    here.write(*some())
    here.store.keep_sites({"cam-0": "lyon"})
    here.store.label("cam-1", sample_of(1), 2, "ada", NOW)
    here.store.label("cam-2", sample_of(2), 2, "ada", NOW)
    here.store.label("cam-2", sample_of(2), 1, "bob", NOW)
    spec = DataSetSpec(model=MODEL, rows_max=1000, device_class_share_max=1, since=NOW + 1)
    plan = here.store.plan(spec)
    made = here.store.build("mine", spec, "ada", NOW)
    rows = here.rows(made.sha256)
    assert made.rows == len(rows) == plan.rows == 58
    assert made.holdout_rows == plan.holdout_rows == int(rows.holdout.sum())
    assert made.excluded == {"contradicted": 1}
    assert made.per_source == {Source.PERSON: 1, Source.CLOUD: 57}
    assert made.per_site == {"": 44, "lyon": 14}
    assert sum(made.per_class) == 58
    assert list(rows.ids) == sorted(rows.ids)
    at = list(rows.ids).index(str(sample_of(1)))
    assert (rows.labels[at], rows.sources[at], rows.devices[at]) == (2, 0, "cam-1")
    assert rows.inputs[at].tolist() == [[1] * 4] * 4
    assert rows.soft[at].argmax() == 1  # the cloud's word, whoever the label is from
    for index, id_ in enumerate(rows.ids):
        fold = draw_of(next(sample_of(n) for n in range(60) if str(sample_of(n)) == id_)) % FOLDS
        assert rows.holdout[index] == (fold < 0.1 * FOLDS)


def test_the_same_store_and_spec_give_the_same_file_and_number(here):
    here.write(*some())
    spec = DataSetSpec(model=MODEL, rows_max=30)
    first = here.store.build("mine", spec, "ada", NOW)
    assert first.rows == 30
    assert here.store.build("mine", spec, "bob", NOW + 1) == first
    other = here.store.build("other", spec, "bob", NOW + 2)
    assert (other.sha256, other.number, other.made_by) == (first.sha256, 1, "bob")
    seeded = here.store.build("mine", spec.model_copy(update={"seed": 1}), "ada", NOW)
    assert (seeded.number, seeded.sha256 == first.sha256) == (2, False)


def test_what_can_teach_nothing_is_refused_in_words(here):
    spec = DataSetSpec(model=MODEL)
    with pytest.raises(Conflict, match="no sample that may be taken matches"):
        here.store.build("mine", spec, "ada", NOW)
    here.write(*(row(number) for number in range(30)))
    with pytest.raises(Conflict, match=r"all .* rows to train on are of class 1"):
        here.store.build("mine", spec, "ada", NOW)
    assert "are of class 1" in here.store.plan(spec).refused
    only_people = DataSetSpec(model=MODEL, source_min=Source.PERSON)
    with pytest.raises(Conflict, match="left out: 30 low_rank"):
        here.store.build("mine", only_people, "ada", NOW)
    assert here.store.data_sets() == []


def test_what_cannot_be_read_is_counted_and_not_fatal(url, tmp_path):
    dictionary = bytes(range(256)) * 8

    class Known:
        def dictionaries(self):
            return (dictionary,)

    import numpy as np  # noqa: PLC0415

    good = Encoder("grey4", dictionary).encode(np.full((4, 4), 17, np.uint8))
    lost = Payload("grey4", "uint8", (4, 4), good.data, "0123456789abcdef")
    with world(url, tmp_path, dictionaries=Known()) as here:
        here.write(
            *some(20),
            row(20, payload=good), row(21, payload=lost),
            row(22, payload=Payload("zstd", "uint8", (4, 4), b"junk")),
            row(23, payload=Payload("raw", "uint8", (2, 2), bytes(4))),
            row(24, classes=5),
        )  # fmt: skip
        made = here.store.build(
            "mine", DataSetSpec(model=MODEL, device_class_share_max=1), "ada", NOW
        )
        assert made.excluded == {
            "no_dictionary": 1, "unreadable": 1, "other_shape": 1, "other_classes": 1,
        }  # fmt: skip
        rows = here.rows(made.sha256)
        assert rows.inputs[list(rows.ids).index(str(sample_of(20)))].tolist() == [[17] * 4] * 4
        assert dictionary_id(dictionary) == good.dictionary


def test_a_device_that_floods_a_class_is_capped_and_named(here):
    honest = [row(n, device=f"cam-{n // 3 % 12}", label=n % 3) for n in range(288)]
    flood = [row(1000 + n, device="poison", label=2) for n in range(600)]
    here.write(*honest, *flood)
    made = here.store.build("mine", DataSetSpec(model=MODEL), "ada", NOW)
    (named,) = made.flooding
    assert (named.device, named.label, named.rows) == ("poison", 2, 600)
    rows = here.rows(made.sha256)
    of_class = rows.devices[rows.labels == 2]
    assert (of_class == "poison").mean() <= 0.2
    assert named.dropped == made.excluded["flooding"] == 600 - (of_class == "poison").sum()


def test_bounds_of_data_sets(url, tmp_path):
    settings = FeedbackSettings(data_sets_max=1, data_set_bytes_max=2000)
    with world(url, tmp_path, settings) as here:
        here.write(*some())
        with pytest.raises(TooLarge, match=r"feedback\.data_set_bytes_max"):
            here.store.build("mine", DataSetSpec(model=MODEL), "ada", NOW)
        few = DataSetSpec(model=MODEL, rows_max=20)
        made = here.store.build("mine", few, "ada", NOW)
        with pytest.raises(Overloaded, match="delete old ones"):
            here.store.build("mine", few, "ada", NOW)
        here.store.delete_data_set("mine", 1, "ada", NOW)
        with pytest.raises(Unknown):
            here.rows(made.sha256)
        for number in (2, 3):  # those before were others
            assert here.store.build("mine", few, "ada", NOW).number == number
            here.store.delete_data_set("mine", number, "ada", NOW)


def test_a_file_stays_while_a_version_has_it(here):
    here.write(*some())
    spec = DataSetSpec(model=MODEL)
    made = here.store.build("a", spec, "ada", NOW)
    here.store.build("b", spec, "ada", NOW)
    here.store.delete_data_set("a", 1, "ada", NOW)
    assert len(here.rows(made.sha256)) == 60
    assert here.store.data_set("b").number == 1
    with pytest.raises(Unknown, match="data set a"):
        here.store.data_set("a")


def test_a_file_that_is_damaged_is_not_handed_out(here):
    here.write(*some())
    made = here.store.build("a", DataSetSpec(model=MODEL), "ada", NOW)
    whole = here.store.verified(made.sha256)
    path = here.blobs.path(made.sha256)
    middle = len(whole) // 2
    path.write_bytes(
        whole[:middle]
        + bytes(byte ^ 0xFF for byte in whole[middle : middle + 4])
        + whole[middle + 4 :]
    )
    with pytest.raises((Malformed, NotTrusted), match="data set"):
        here.store.verified(made.sha256)


def test_files_without_a_version_are_swept_when_they_are_old(here):
    here.write(*some())
    made = here.store.build("a", DataSetSpec(model=MODEL), "ada", NOW)
    here.blobs.put("0" * 64, b"left by a process that was killed")
    import time  # noqa: PLC0415

    assert here.store.sweep(time.time()) == 0
    assert here.store.sweep(time.time() + 2 * 86_400) == 1
    assert here.blobs.stat("0" * 64) is None
    assert here.blobs.stat(made.sha256) is not None


def test_deletion_takes_labels_with_it_and_is_remembered(here):
    here.write(*some())
    here.store.label("cam-1", sample_of(1), 2, "ada", NOW)
    here.store.build("mine", DataSetSpec(model=MODEL), "ada", NOW)
    here.store.build("late", DataSetSpec(model=MODEL, since=NOW + 30), "ada", NOW)
    gone = here.store.delete(
        Deletion(device="cam-1", until=NOW + 30, comment="asked for"), "ops", NOW
    )
    assert gone.rows == 8
    assert gone.data_sets == ("mine 1",)
    assert here.count(SampleQuery(device="cam-1")) == 7
    assert here.store.state().rows == 52
    assert here.store.state().labelled == 0
    import sqlalchemy as sa  # noqa: PLC0415

    from cloud.store.schema import devices, labels, log  # noqa: PLC0415

    def look(connection):
        (line,) = connection.execute(sa.select(log)).mappings()
        totals = dict(connection.execute(sa.select(devices.c.device, devices.c.row_count)).all())
        return line, totals, connection.execute(sa.select(labels)).all()

    line, totals, said = here.store._database.read(look)
    assert (line["actor"], line["comment"], line["row_count"]) == ("ops", "asked for", 8)
    assert line["byte_count"] == gone.bytes > 0
    assert totals == {"": 52, "cam-0": 15, "cam-1": 7, "cam-2": 15, "cam-3": 15}
    assert said == []


def test_old_samples_go(url, tmp_path):
    with world(url, tmp_path, FeedbackSettings(kept_s=30)) as here:
        here.write(*some(), row(99, at=NOW - 500))  # which waited for its database
        assert here.store.expire(NOW + 60) == 31
        assert here.count(ALL) == 30
        assert here.store.expire(NOW + 60) == 0


def test_the_figures_of_the_store(here):
    assert here.store.state().rows == 0
    assert here.store.state().oldest_at is None
    here.write(row(1), row(2, reason="audit", at=NOW + 5), row(3, reason="novel"))
    state = here.store.state()
    assert (state.rows, state.oldest_at, state.newest_at) == (3, NOW, NOW)
    assert state.per_reason == {"audit": 1, "escalated": 1, "novel": 1}


def test_who_floods_the_store_evicts_himself(url, tmp_path):
    bounds = Bounds(rows_max=100, bytes_max=PLENTY.bytes_max, device_rows_share_max=0.2)
    with world(url, tmp_path, bounds=bounds) as here:
        here.write(*(row(n, device=f"cam-{n % 5}") for n in range(75)))
        for start in range(1000, 3000, 50):
            here.write(*(row(n, device="poison") for n in range(start, start + 50)))
        assert here.count(SampleQuery(device="poison")) == 25
        assert here.store.state().rows == 100
        here.write(*(row(n, device=f"cam-{n % 5}") for n in range(75, 90)))
        assert here.count(SampleQuery(device="poison")) == 20  # down to its share
        assert here.store.state().rows == 100


def test_two_writers_and_a_deletion_keep_the_bounds_exact(url, tmp_path):
    bounds = Bounds(rows_max=50, bytes_max=PLENTY.bytes_max, device_rows_share_max=1)
    with world(url, tmp_path, bounds=bounds) as here, world(url, tmp_path, bounds=bounds) as more:
        for n in range(0, 200, 10):
            here.write(*(row(k) for k in range(n, n + 5)))
            more.write(*(row(k) for k in range(n + 5, n + 10)))
        assert here.count(ALL) == here.store.state().rows == 50
        here.store.delete(Deletion(device="cam-1", comment=""), "ops", NOW)
        assert here.store.state().rows == 0
        more.write(*(row(k) for k in range(300, 340)))
        assert here.count(ALL) == here.store.state().rows == 40


def test_accuracy_from_what_people_labelled(here):
    here.write(*some(30))
    assert here.store.accuracy(ALL) is None
    for n in range(10):
        here.store.label(f"cam-{n % 4}", sample_of(n), n % 3, "ada", NOW)
    cloud = here.store.accuracy(ALL, Source.CLOUD)
    edge = here.store.accuracy(ALL, Source.EDGE)
    assert (cloud.estimate, edge.estimate) == (1.0, 0.3)
    assert cloud.low < 0.9
    assert edge.high < 0.7
    found = here.store.answers(ALL, 20)
    assert len(found) == 20
    assert found.sources.tolist().count(0) == 0
    assert here.store.answers(SampleQuery(source=Source.PERSON), 20).labels.tolist() == [
        n % 3 for n in range(9, -1, -1)
    ]


@pytest.mark.parametrize("share", [0.0025, 0.0015, 0.0499])
def test_a_stratum_weighs_by_the_shares_of_its_own_samples(here, share):
    here.write(*(row(number, share=share) for number in range(10)), row(20, share=1.0))
    small, whole = here.store.strata(ALL)
    assert (small.share, small.sent) == (pytest.approx(share), 10)
    assert whole.share == 1.0


def test_an_audit_of_almost_every_sample_makes_no_audit_of_an_escalation(here):
    here.write(*(row(number) for number in range(10)), row(20, reason="audit", share=0.9996))
    for number in (*range(10), 20):
        here.store.label("cam-1", sample_of(number), 1, "ada", NOW)
    estimate = here.store.accuracy(ALL)
    assert (estimate.audits, estimate.labelled) == (1, 11)
    assert [(one.share, one.sent) for one in here.store.strata(ALL)] == [(0.9996, 1), (1.0, 10)]


def test_a_device_with_another_share_each_time_hides_nobody(here):
    here.write(*(row(number) for number in range(4)))
    here.write(*(
        row(100 + number, device="liar", share=(number + 1) * 1e-7) for number in range(3000)
    ), *(row(9000 + number, share=0.05 + number * 1e-9) for number in range(10)))  # fmt: skip
    found = here.store.strata(ALL)
    assert [(one.share, one.sent) for one in found] == [(0.001, 3000), (0.05, 10), (1.0, 4)]


@pytest.mark.parametrize("label", [2**63, 65_536, -1])
def test_a_label_that_no_database_has_is_refused(label):
    with pytest.raises(ValueError, match="label"):
        SampleQuery(label=label)


def test_a_site_that_postgresql_does_not_take_is_refused():
    with pytest.raises(ValueError, match="site"):
        SampleQuery(site="a\0b")
    with pytest.raises(ValueError, match="sites"):
        DataSetSpec(model=MODEL, sites=("a\0b",))


def test_a_deletion_names_the_data_set_that_was_being_made_of_what_it_deleted(url, tmp_path):
    said = []

    class Slow:
        """Asked for once the samples are read, and before they are a data set."""

        def dictionaries(self):
            if not said:
                said.append(deleting := threading.Thread(target=delete))
                deleting.start()
                while here.count(ALL):  # each look is a round trip
                    pass
                deleting.join(0.3)  # it would be over by now, if it did not wait
            return ()

    def delete():
        said.append(here.store.delete(Deletion(until=NOW + 1, comment=""), "ops", NOW))

    with world(url, tmp_path, dictionaries=Slow()) as here:
        here.write(
            *(row(number, device=f"cam-{number % 4}", label=number % 3) for number in range(40))
        )
        made = here.store.build("spring", DataSetSpec(model=MODEL), "ann", NOW)
        said[0].join()
    assert made.rows == said[1].rows == 40
    assert said[1].data_sets == ("spring 1",)


@pytest.mark.parametrize("since", [NOW, NOW + 1])
def test_a_deletion_of_nothing_is_refused(since):
    with pytest.raises(ValueError, match="since is not before until"):
        Deletion(since=since, until=NOW, comment="")
