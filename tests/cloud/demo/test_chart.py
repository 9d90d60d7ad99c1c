from pathlib import Path

from PIL import Image

from cloud.demo import chart
from cloud.demo.verdict import judge
from tests.cloud.demo.seen import COUNT, LABELS, seen


def test_the_chart_is_a_png_of_its_size_with_something_on_it(tmp_path: Path) -> None:
    verdict = judge(
        LABELS, seen(160), seen(100, escalated=COUNT), seen(100, escalated=300), {}
    )  # fmt: skip
    chart.draw(verdict, tmp_path / "demo.png")
    with Image.open(tmp_path / "demo.png") as image:
        assert (image.format, image.size) == ("PNG", (975, 598))
        colours = image.convert("RGB").getcolors(maxcolors=1 << 20)
    assert colours is not None
    drawn = {colour for _, colour in colours}
    assert {(214, 39, 40), (255, 127, 14), (44, 160, 44)} <= drawn  # the run, and both ends
