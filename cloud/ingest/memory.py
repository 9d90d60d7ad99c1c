"""The newest answers, so that a sample which comes again costs neither a query nor a run."""

from collections import OrderedDict

from cloud.store.sample_row import Key
from shared.wire.envelope import CloudAnswer


class AnswerMemory:
    """Bounded; the least recently used goes first."""

    def __init__(self, answers_max: int) -> None:
        self._answers_max = answers_max
        self._answers: OrderedDict[Key, CloudAnswer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._answers)

    def find(self, key: Key) -> CloudAnswer | None:
        answer = self._answers.get(key)
        if answer is not None:
            self._answers.move_to_end(key)
        return answer

    def keep(self, key: Key, answer: CloudAnswer) -> None:
        self._answers[key] = answer
        self._answers.move_to_end(key)
        if len(self._answers) > self._answers_max:
            self._answers.popitem(last=False)
