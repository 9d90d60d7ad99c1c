"""The scenarios' names and what they are, for a command line that loads nothing else."""

from typing import Final

NAMES: Final[dict[str, str]] = {
    "good": "A version that is as good as the one before, on calm seas; it must reach everybody.",
    "better": "A version that errs less.",
    "worse": "A version that is 2 points worse; it must be stopped within the canary.",
    "crash": "A version whose process dies when it opens the model.",
    "crash-late": "A version that passes its probe, and of which the agent dies when it takes over.",
    "nan": "A version that answers NaN.",
    "golden": "A version whose golden samples differ from the reference.",
    "slow": "A version that is 5 times slower, which devices refuse by themselves.",
    "slower": "A version that is 2.2 times slower, which devices let pass.",
    "sure-and-wrong": "A version that errs more and is surer of itself.",
    "unsure": "A version that escalates 2.5 times as much.",
    "flaky": "A version that fails in 1% of inferences.",
    "storm": "Everything wrong at once: network, broker, devices, control plane, operators.",
}
