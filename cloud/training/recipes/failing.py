"""Why a job cannot go on, and the word for it in `Failed.reason`."""

import errno
import traceback

from cloud.training.child_messages import Failed
from shared.disk import NoRoom
from shared.errors import HybridgeError, Refused, Unavailable

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FAULTS = frozenset({errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.ESTALE})
"""Of a disk, or of a folder of another machine."""
_WORDS_MAX = 1000


class LossNotFinite(Refused):
    """A loss, a gradient or a validation loss is no finite number."""

    def __init__(self, what: str, step: int) -> None:
        super().__init__(
            f"step {step}: {what} is no finite number; the weights before it are kept: lower "
            "fitting.learning_rate, or look for bad values in the data"
        )
        self.step = step


class BadCheckpoint(Refused):
    """A checkpoint would be bigger than one may be."""


class RankLost(Unavailable):
    """One of a job's processes ended by itself: the attempt is lost, the job is not."""


def failed(error: BaseException) -> Failed:
    """What is said about it: in our words where we raised it, else the last line of its traceback."""
    step = error.step if isinstance(error, LossNotFinite) else None
    return Failed(reason=_reason(error), words=_words(error)[:_WORDS_MAX], step=step)


def _reason(error: BaseException) -> str:
    match error:
        case LossNotFinite():
            return "nan_loss"
        case BadCheckpoint():
            return "bad_checkpoint"
        case NoRoom() | MemoryError():
            return "no_room"
        case OSError() if error.errno in _NO_ROOM:
            return "no_room"
        case Unavailable():
            return "away"
        case OSError() if error.errno in _FAULTS:
            return "away"
        case Refused():
            return "bad_data"
        case _:
            return "bug"


def _words(error: BaseException) -> str:
    match error:
        case HybridgeError():
            return str(error) or type(error).__name__
        case MemoryError():
            return f"out of memory: {error}; lower fitting.batch, or give the worker more"
        case ModuleNotFoundError():
            return f"{error.name} is not installed here; a train worker needs hybridge[train]"
        case OSError() if error.errno in _NO_ROOM:
            return f"{error.filename or 'a file'}: {error.strerror}; free space on its disk"
        case OSError() if error.errno in _FAULTS:
            return f"{error.filename or 'a file'}: {error.strerror}; see to its disk"
        case _:
            return traceback.format_exception_only(error)[-1].strip()
