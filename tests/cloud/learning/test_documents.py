"""What a loop's settings may hold."""

import pytest

from cloud.feedback.documents import DataSetSpec
from cloud.learning.documents import DEVICES_MAX, LoopSettings


def test_a_loop_names_no_more_devices_than_each_of_its_records_can_carry():
    names = tuple(f"cam-{number}" for number in range(DEVICES_MAX + 1))
    fits = DataSetSpec(model="m", devices=names[:-1])
    assert LoopSettings(model="m", teacher="t", data=fits).data == fits
    with pytest.raises(ValueError, match="name their sites"):
        LoopSettings(model="m", teacher="t", data=DataSetSpec(model="m", devices=names))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"teacher": "m"}, "cannot teach itself"),
        ({"data": DataSetSpec(model="other")}, "from its samples alone"),
        ({"data": DataSetSpec(model="m", holdout_share=0)}, "the gates need some"),
        ({"watch_s": 1e308}, "watch_s"),
        ({"triggers": {"every_s": 1e-300}}, "every_s"),
    ],
)
def test_a_loop_that_could_do_no_good_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        LoopSettings.model_validate({"model": "m", "teacher": "t", **changes})
