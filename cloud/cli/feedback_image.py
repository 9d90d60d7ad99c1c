"""`hybridge feedback image`: what a sample looks like."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cloud.cli import feedback_arguments as arguments
from cloud.cli.learning_session import KeyFile, Learning, ask
from cloud.cli.output import Format, Output, console, show, size
from cloud.cli.registry_session import ending

if TYPE_CHECKING:
    from rich.console import Console

_SIDE_MAX: Final = 4096  # pixels of a decoded image


def image(
    device: arguments.DeviceName,
    sample: arguments.SampleName,
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=".png, or .npy for the tensor. Default: draw it here."),
    ] = None,
    learning: Learning = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Draw a sample in the terminal, or write it to a file. What was there is replaced.

    Exit codes: 0 done, 1 refused (as where it is no image), 2 wrong usage, 3 the learning process
    cannot be reached.
    """
    if out is not None and out.suffix not in {".png", ".npy"}:
        raise typer.BadParameter(f"--out {str(out)[:200]}: name it .png or .npy")
    if out is None:
        screen = console()
        if not screen.is_terminal or output is not Format.TABLE:
            raise typer.BadParameter("there is no terminal to draw it in: give --out FILE.png")
        content = ask(learning, key_file, lambda asked: asked.feedback.image(device, sample))
        with ending():
            draw(screen, content)
        return
    if out.suffix == ".npy":
        content = ask(learning, key_file, lambda asked: asked.feedback.tensor(device, sample))
    else:
        content = ask(learning, key_file, lambda asked: asked.feedback.image(device, sample))
    from shared.disk import write_whole

    with ending():
        write_whole(out, content)
    tree = {"device": device, "sample": sample, "file": str(out), "bytes": len(content)}
    line = f"{out}: {device} {sample}, {size(len(content))}"
    show(tree, output, lambda screen: screen.print(line, soft_wrap=True))


def draw(screen: "Console", png: bytes) -> None:
    """Raises `Malformed` for what is no image, or too large a one."""
    import numpy as np
    from PIL import Image

    from cloud.cli.feedback_picture import picture
    from shared.errors import Malformed

    try:
        with Image.open(io.BytesIO(png), formats=("PNG",)) as opened:
            if max(opened.size) > _SIDE_MAX:
                raise Malformed(f"an image of {opened.size}: at most {_SIDE_MAX} a side are drawn")
            pixels = np.asarray(opened.convert("RGB"))
    except (OSError, SyntaxError, ValueError) as error:
        raise Malformed(f"what came is no PNG: {error}") from error
    has_blocks = screen.encoding.lower().startswith("utf") and screen.color_system is not None
    screen.print(picture(pixels, screen.width, has_colours=has_blocks))
