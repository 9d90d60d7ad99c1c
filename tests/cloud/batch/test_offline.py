"""The offline shape in this process: what is written, what is left out, and going on after a stop."""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cloud.batch.journal import Journal
from cloud.batch.offline import Ended, Order, run
from cloud.batch.progress import Progress
from shared.errors import InUse, Malformed, Refused, Unknown
from tests.cloud.batch.images import lines, noise, npy, png, tiny_bundle, write_inputs, written
from tests.tiny_bundle import sure_image, tiny_logits

ENGINE = "onnxruntime/fp32"


def order(folder: Path, **more: Any) -> Order:
    return replace(
        Order(
            source=str(folder / "in"), out=folder / "out", bundle=tiny_bundle(folder),
            engine=ENGINE, batch_rows=4, part_rows=10,
        ),
        **more,
    )  # fmt: skip


def go(what: Order, stop_after: int | None = None) -> Ended:
    """Run; `stop_after` asks it to stop once so many rows are answered."""

    async def main() -> Ended:
        stop = asyncio.Event()

        def report(now: Progress) -> None:
            if stop_after is not None and now.rows >= stop_after:
                stop.set()

        return await run(what, report, stop)

    return asyncio.run(main())


def test_each_row_of_each_good_input_once_in_order(tmp_path: Path) -> None:
    rows = write_inputs(tmp_path / "in")
    ended = go(order(tmp_path))
    assert (ended.how, ended.rows) == ("complete", 97)
    said = [(line["name"], line["row"]) for line in lines(tmp_path / "out")]
    assert said == [(name, row) for name in sorted(rows) for row in range(rows[name])]
    parts = sorted((tmp_path / "out").glob("part-*"))
    assert [len(part.read_text().splitlines()) for part in parts] == [10] * 9 + [7]


def test_a_line_says_what_the_model_says(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.npy").write_bytes(npy(noise(5)))
    go(order(tmp_path, probabilities=True))
    logits = tiny_logits(noise(5), shift=1)
    wanted = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for row, line in enumerate(lines(tmp_path / "out")):
        assert line["index"] == wanted[row].argmax()
        assert line["label"] == f"class-{line['index']}"
        assert line["confidence"] == line["probabilities"][line["index"]]
        assert line["probabilities"] == pytest.approx(wanted[row], abs=1e-5)
        assert (line["model"], line["version"]) == ("tiny-cloud", "1.0.0")


def test_arrays_hold_what_lines_do(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    go(order(tmp_path, probabilities=True))
    go(order(tmp_path, probabilities=True, layout="npz", out=tmp_path / "arrays"))
    parts = [np.load(path) for path in sorted((tmp_path / "arrays").glob("part-*.npz"))]
    said = lines(tmp_path / "out")
    for name in ("name", "row", "label", "index", "version", "model"):
        whole = np.concatenate([part[name] for part in parts])
        assert whole.tolist() == [line[name] for line in said], name
    for name in ("confidence", "probabilities"):
        whole = np.concatenate([part[name] for part in parts])
        assert whole == pytest.approx(np.array([line[name] for line in said])), name


def test_arrays_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    go(order(tmp_path, layout="npz", out=tmp_path / "whole"))
    go(order(tmp_path, layout="npz", rows_max=20))
    go(order(tmp_path, layout="npz"))
    assert written(tmp_path / "out") == written(tmp_path / "whole")


def test_bad_inputs_are_named_counted_and_left_out(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    ended = go(order(tmp_path))
    errors = [json.loads(x) for x in (tmp_path / "out/errors.jsonl").read_text().splitlines()]
    assert [one["name"] for one in errors] == ["bad.png", "g.txt"]
    assert "cut short" in errors[0]["why"]
    assert "neither PNG, JPEG, NPY nor IDX" in errors[1]["why"]
    assert ended.totals.failed == 2
    summary = json.loads((tmp_path / "out/_SUCCESS.json").read_text())
    assert (summary["failed"], summary["inputs"], summary["rows"]) == (2, 8, 97)


def test_strict_stops_at_the_first_bad_input_and_keeps_what_is_done(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    with pytest.raises(Malformed, match=r"bad.png: cut short.*\(strict: stopped here\)"):
        go(order(tmp_path, strict=True))
    out = tmp_path / "out"
    assert not (out / "_SUCCESS.json").exists()
    assert "bad.png" in (out / "errors.jsonl").read_text()
    done = {line["name"] for line in lines(out)}
    assert done <= {"a/one.png", "a/two.png", "b.npy"}
    with pytest.raises(Malformed):
        go(order(tmp_path, strict=True))


def test_run_again_when_complete_changes_nothing(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    go(order(tmp_path))
    before = written(tmp_path / "out")
    ended = go(order(tmp_path))
    assert (ended.how, ended.rows, ended.totals.rows) == ("complete", 0, 97)
    assert written(tmp_path / "out") == before


def test_new_inputs_are_added_by_the_next_run(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    go(order(tmp_path))
    (tmp_path / "in" / "a" / "late.png").write_bytes(png(sure_image(2)))
    assert go(order(tmp_path)).rows == 1
    assert lines(tmp_path / "out")[-1]["name"] == "a/late.png"
    assert json.loads((tmp_path / "out/_SUCCESS.json").read_text())["rows"] == 98


def test_a_bad_input_that_was_mended_is_tried_again(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    go(order(tmp_path))
    (tmp_path / "in" / "bad.png").write_bytes(png(sure_image(1)))
    ended = go(order(tmp_path))
    assert (ended.rows, ended.totals.failed) == (1, 1)
    assert "bad.png" not in (tmp_path / "out/errors.jsonl").read_text()


def test_an_input_that_changed_after_it_was_answered_is_refused(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    go(order(tmp_path))
    (tmp_path / "in" / "b.npy").write_bytes(npy(noise(2)))
    with pytest.raises(Refused, match=r"b.npy: changed after 33 of its rows were answered"):
        go(order(tmp_path))


def test_a_stop_keeps_what_is_answered_and_the_next_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.npy").write_bytes(npy(noise(20_000)))
    ended = go(order(tmp_path, part_rows=250), stop_after=100)
    assert ended.how == "stopped"
    done = len(lines(tmp_path / "out"))
    assert 100 <= done == ended.rows < 20_000
    assert not (tmp_path / "out/_SUCCESS.json").exists()
    assert go(order(tmp_path, part_rows=250)).how == "complete"
    assert [line["row"] for line in lines(tmp_path / "out")] == list(range(20_000))


def test_a_limit_is_met_exactly_and_the_next_run_goes_on(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    for so_far in (7, 14):
        ended = go(order(tmp_path, rows_max=7))
        assert (ended.how, ended.rows, ended.totals.rows) == ("limited", 7, so_far)
    assert go(order(tmp_path)).totals.rows == 97
    assert max(Counter((x["name"], x["row"]) for x in lines(tmp_path / "out")).values()) == 1


def test_a_limit_above_all_is_complete(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    assert go(order(tmp_path, rows_max=1000)).how == "complete"


def test_what_a_killed_run_left_is_cleared_away(tmp_path: Path) -> None:
    """A part on disk that the journal does not know, and half a temporary file."""
    write_inputs(tmp_path / "in")
    go(order(tmp_path, out=tmp_path / "whole"))
    go(order(tmp_path, rows_max=20))
    (tmp_path / "out" / "part-000002.jsonl").write_text("not known\n")
    (tmp_path / "out" / "part-000077.jsonl").write_text("not known\n")
    (tmp_path / "out" / ".part-000003.jsonl.tmp").write_text("ha")
    (tmp_path / "out" / "my-notes.txt").write_text("kept")
    go(order(tmp_path))
    after = written(tmp_path / "out")
    assert after.pop("my-notes.txt") == b"kept"
    assert after == written(tmp_path / "whole")


def test_two_runs_into_one_folder(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    with Journal(tmp_path / "out"), pytest.raises(InUse, match="another batch writes here"):
        go(order(tmp_path))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layout": "npz"}, "layout is 'jsonl' there and 'npz' here"),
        ({"probabilities": True}, "probabilities is False there and True here"),
        ({"batch_rows": 8}, "batch_rows is 4 there and 8 here"),
        ({"engine": "openvino"}, "was begun with onnxruntime/fp32, not openvino"),
    ],
)
def test_a_folder_of_another_job_is_refused(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    write_inputs(tmp_path / "in")
    go(order(tmp_path, rows_max=8))
    with pytest.raises(Refused, match=said):
        go(order(tmp_path, **change))


def test_what_is_not_asked_for_goes_on_as_begun(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    go(order(tmp_path, rows_max=8))
    assert go(order(tmp_path, engine=None, batch_rows=None)).how == "complete"


def test_answers_among_the_inputs_are_refused(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    with pytest.raises(Refused, match="lies inside"):
        go(order(tmp_path, out=tmp_path / "in" / "out"))


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(Unknown, match="no such file or folder"):
        go(order(tmp_path))
    (tmp_path / "in").mkdir()
    assert go(order(tmp_path)).how == "complete"
    assert json.loads((tmp_path / "out/_SUCCESS.json").read_text())["parts"] == []


def test_without_a_batch_size_a_batch_ends_within_the_pause(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    go(order(tmp_path, batch_rows=None, pause_ms=1e-6, out=tmp_path / "short"))
    assert json.loads((tmp_path / "short/_SUCCESS.json").read_text())["batch_rows"] == 1


def test_it_pauses_while_the_online_tier_queues_and_says_why(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    states: set[str] = set()
    reports = [{"busy_share": 0.9, "queue_depth": 50}] * 4 + [{"busy_share": 0, "queue_depth": 0}]

    async def status(_: web.Request) -> web.Response:
        return web.json_response(reports.pop(0) if len(reports) > 1 else reports[0])

    async def main() -> Ended:
        app = web.Application()
        app.router.add_get("/v1/status", status)
        async with TestServer(app) as server:
            what = order(tmp_path, online=str(server.make_url("")))
            return await run(what, lambda now: states.add(now.state), asyncio.Event())

    assert asyncio.run(main()).how == "complete"
    assert len(lines(tmp_path / "out")) == 97
    assert "paused: 50 online requests wait" in states


def test_a_journal_that_is_none_is_said_so(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "journal.db").write_bytes(b"not a data base, but long enough" * 100)
    with pytest.raises(Malformed, match="not a batch's journal"):
        go(order(tmp_path))
