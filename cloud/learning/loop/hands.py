"""Has a command done by whom it is for, and gives what became of it as an answer."""

from dataclasses import dataclass
from typing import assert_never

from cloud.learning.loop import commands as c
from cloud.learning.loop import events as e
from cloud.learning.loop.seams import Jobs, Rollouts, Samples, Versions
from shared.errors import Forbidden, Malformed, Refused, Unavailable

_WORDS_MAX = 900


@dataclass(frozen=True, slots=True)
class Hands:
    samples: Samples
    jobs: Jobs
    versions: Versions
    rollouts: Rollouts

    async def do(self, command: c.AnyCommand) -> e.Answer:
        """Whatever is refused or away is an answer, too. What the loop's key may not do it may do once
        somebody gives it the role; what a person can do in its stead is refused, and he is asked. Who
        only watches looks again at what he cannot read: the other end is of another release, perhaps.
        """
        try:
            return await self._do(command)
        except Forbidden as error:
            words = str(error)[:_WORDS_MAX]
            is_a_persons_too = isinstance(command, c.Approve | c.Release)
            return e.Refused(words) if is_a_persons_too else e.Away(f"{words}; tried again")
        except Malformed as error:
            words = str(error)[:_WORDS_MAX]
            if isinstance(command, c.WATCHES):
                return e.Away(f"{words}; tried again")
            return e.Refused(words)
        except Refused as error:
            return e.Refused(str(error)[:_WORDS_MAX])
        except Unavailable as error:
            return e.Away(f"{str(error)[:_WORDS_MAX]}; tried again")

    async def _do(self, command: c.AnyCommand) -> e.Answer:
        match command:
            case c.Count():
                return await self.samples.counted(command)
            case c.Build():
                return await self.samples.built(command)
            case c.Choose():
                return await self.versions.chosen(command)
            case c.Submit():
                return await self.jobs.submitted(command)
            case c.WatchJob():
                return await self.jobs.seen(command)
            case c.CancelJob():
                return await self.jobs.cancelled(command)
            case c.Evaluate():
                return await self.versions.evaluated(command)
            case c.WatchEvaluation():
                return await self.versions.evaluation(command)
            case c.Approve():
                return await self.versions.approved(command)
            case c.Release():
                return await self.versions.released(command)
            case c.WatchVersion():
                return await self.versions.version(command)
            case c.Reject():
                return await self.versions.rejected(command)
            case c.Roll():
                return await self.rollouts.rolled(command)
            case c.WatchRollout():
                return await self.rollouts.seen(command)
            case c.Undo():
                return await self.rollouts.undone(command)
            case _:
                assert_never(command)
