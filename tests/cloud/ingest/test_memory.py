from cloud.ingest.memory import AnswerMemory
from tests.cloud.samples import DEVICE, answer, sample


def test_it_keeps_the_most_recently_used_and_no_more() -> None:
    memory = AnswerMemory(2)
    for n in (1, 2):
        memory.keep((DEVICE, sample(n)), answer(sample(n)))
    assert memory.find((DEVICE, sample(1))) is not None
    memory.keep((DEVICE, sample(3)), answer(sample(3)))
    assert [memory.find((DEVICE, sample(n))) is not None for n in (1, 2, 3)] == [True, False, True]
    assert len(memory) == 2
