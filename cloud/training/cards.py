"""The model card that travels in a bundle: what it is for, what it was made of, where it fails."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from shared import __version__
from shared.bundle.manifest import Calibration

_LIMITS = """## Limits and known failure modes
- 28 x 28 grey images of one centred article on black, as in Fashion-MNIST; nothing else.
- "Shirt" against "T-shirt/top", "Pullover" and "Coat" is where most errors are, people's too.
- Under a camera fault (faded, blurred, noisy) the edge model is wrong and sure of it: confidence
  alone does not escalate such images. Watch the input sketches.
- The threshold's guarantee holds for images like those of the calibration split.
"""


def code_version() -> str:
    """The package's version, and the commit where there is a git that knows one."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty"],  # noqa: S607  whichever git is on PATH
            cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        return __version__
    commit = described.stdout.strip()
    return f"{__version__}+{commit}" if commit else __version__


def card(side: str, figures: dict[str, float], calibration: Calibration) -> str:
    """Markdown; every figure is from the run that wrote the bundle."""
    network = {
        "edge": "EdgeNet, 53,362 parameters, distilled from the cloud network",
        "cloud": "CloudNet, a residual network of 658,922 parameters, trained with random shifts",
    }[side]
    rows = "\n".join(f"| {name} | {_shown(name, value)} |" for name, value in figures.items())
    return (
        f"# Fashion-MNIST, {side} model\n\nTask: which of ten kinds of clothing an image shows.\n"
        f"Network: {network}. Input: uint8 [N, 28, 28], scaled inside the graph.\n"
        "Training data: 55,000 images of Fashion-MNIST's 60,000 (MIT licence, Zalando SE); 5,000 "
        "for calibration; its 10,000 test images were read once, for the table below.\n\n"
        f"## Figures on the test split\n| figure | value |\n|---|---|\n{rows}\n\n"
        f"{_thresholds(calibration, 'split')}{_LIMITS}"
    )


def field_card(
    name: str, network: str, figures: Mapping[str, float], calibration: Calibration,
    data: str, taught_by: str,
) -> str:  # fmt: skip
    """Markdown of a model that a training job made; figures by `figure_names`."""
    rows = "\n".join(f"| {figure} | {value:.4g} |" for figure, value in figures.items())
    return (
        f"# {name}\n\nTask: which of its labels an image shows.\n"
        f"Network: {network}. Input: uint8, scaled inside the graph.\n"
        f"Training data: {taught_by}.\n\n"
        f"## Figures\n`clean` is the calibration split of {data}, `holdout` feedback that was kept "
        "from training, `parent` the version before it; shares of 1.\n\n"
        f"| figure | value |\n|---|---|\n{rows}\n\n{_thresholds(calibration, 'samples')}"
        "## Limits and known failure modes\n"
        "- Inputs that look like neither the base data nor the feedback: watch the input sketches.\n"
        "- Labels by a cloud model teach its mistakes, too: it is no better than that model where "
        "nobody else has labelled.\n"
        "- A threshold's guarantee holds for such a mixture of samples as its statement names.\n"
    )


def _thresholds(calibration: Calibration, measured_on: str) -> str:
    if not calibration.thresholds:
        return ""
    lines = "\n".join(
        f"- `{t.name}`: below {t.confidence_min:.4f}; {t.escalated_share:.1%} escalated, "
        f"{t.hybrid_accuracy:.2%} right on the calibration {measured_on}"
        + (f"; {t.guarantee.statement}" if t.guarantee else "")
        for t in calibration.thresholds
    )
    return f"## Thresholds\n{lines}\n\n"


def _shown(name: str, value: float) -> str:
    return f"{value:.0f} B" if "bytes" in name else f"{value:.2%}"
