"""report.html: one file without scripts, readable on a phone; everything from outside is escaped."""

from collections.abc import Iterator, Sequence
from html import escape

from cloud.registry.documents import RuleResult
from cloud.registry.evaluation import plots
from cloud.registry.evaluation.figures import Measured, Report
from cloud.registry.evaluation.metric_names import METRICS
from cloud.registry.evaluation.rules import figure

_GROUPS_SHOWN_MAX = 50
_STYLE = """
:root{color-scheme:light}
body{font:16px/1.45 system-ui,sans-serif;margin:0 auto;max-width:70rem;padding:1rem;color:#1f2328}
h1{font-size:1.5rem;margin:.2rem 0}h2{font-size:1.2rem;margin:2rem 0 .5rem}h3{font-size:1rem}
.state{display:inline-block;border-radius:1rem;padding:.1rem .8rem;color:#fff;background:#6e7781}
.passed{background:#1a7f37}.failed,.broken{background:#cf222e}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.3rem .5rem;border-bottom:1px solid #d0d7de;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.good{color:#1a7f37}.bad{color:#cf222e}.dim{color:#59636e}code{font-size:.9em;word-break:break-word}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr));gap:1rem}
figure{margin:0}figure svg{width:100%;height:auto;max-height:36rem}
figcaption{font-weight:600;font-size:.9rem}
summary{cursor:pointer;font-weight:600;font-size:1.2rem;margin:1.5rem 0 .5rem}
"""


def render(report: Report) -> str:
    """Takes a second or so a variant: plots."""
    ended = report.evaluation
    title = f"{ended.model} {ended.version}: {ended.state}"
    with plots.drawing():
        body = "\n".join(_body(report))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _body(report: Report) -> Iterator[str]:
    ended, hardware = report.evaluation, report.hardware
    beside = f"current release {ended.current}" if ended.current else "no current release"
    yield f"<h1>{escape(ended.model)} {escape(ended.version)}</h1>"
    yield f'<p><span class="state {ended.state}">{ended.state}</span> {escape(ended.why)}</p>'
    yield (
        f'<p class="dim">Measured on {escape(report.data)}. Beside: {escape(beside)}, in the same '
        f"run. Machine {escape(hardware.fingerprint)}: {escape(hardware.cpu)}, {hardware.cores} "
        f"cores, {hardware.memory_bytes / 2**30:.0f} GiB, {escape(hardware.system)}; "
        f"{escape(', '.join(f'{k} {v}' for k, v in hardware.engines.items()))}. "
        f"Seed {report.seed}, {report.took_s:.0f} s.</p>"
    )
    yield f"<h2>Rules</h2><p><code>{escape(report.rules)}</code></p>"
    yield _table(("", "variant", "rule", "figures"), [_rule_row(one) for one in ended.rules])
    for at, measured in enumerate(report.measured):
        opened = " open" if at == 0 else ""
        yield f"<details{opened}><summary>{escape(measured.variant)}</summary>"
        yield from _variant(measured, report.current.get(measured.variant))
        yield "</details>"
    yield from _parity(report)


def _rule_row(one: RuleResult) -> tuple[str, ...]:
    mark = '<span class="good">✓</span>' if one.holds else '<span class="bad">✗</span>'
    return mark, escape(one.variant), f"<code>{escape(one.rule)}</code>", escape(one.why)


def _variant(mine: Measured, current: Measured | None) -> Iterator[str]:
    if mine.broke:
        yield f'<p class="bad">{escape(mine.broke)}</p>'
    if current is not None:
        words = f"{current.version} {current.variant}"
        yield f'<p class="dim">Beside it: {escape(words)}. {escape(current.broke)}</p>'
    rows = [_metric_row(name, mine, current) for name in METRICS]
    yield _table(("metric", "", "n:this version", "n:current", "n:difference"), rows)
    for note in mine.notes:
        yield f'<p class="dim">{escape(note)}</p>'
    yield '<div class="plots">'
    for caption, svg in _plots(mine, current):
        yield f'<figure><figcaption>{escape(caption)}</figcaption><div role="img" aria-label="{escape(caption)}">{svg}</div></figure>'
    yield "</div>"
    yield from _details(mine)


def _metric_row(name: str, mine: Measured, current: Measured | None) -> tuple[str, ...]:
    here = mine.metrics.get(name)
    there = None if current is None else current.metrics.get(name)
    said = METRICS[name].words
    shown = escape(figure(here)) if here is not None else "-"
    if here is None:
        said = f"{said}: not measured, {mine.missing.get(name, 'nothing was said of it')}"
    difference = ""
    if here is not None and there is not None:
        gap = here - there
        better = (gap > 0) == METRICS[name].higher_is_better
        kind = "dim" if gap == 0 else "good" if better else "bad"
        difference = f'<span class="{kind}">{gap:+.4g}</span>'
    return (
        f"<code>{name}</code>", f'<span class="dim">{escape(said)}</span>', f"n:{shown}",
        f"n:{'-' if there is None else figure(there)}", f"n:{difference}",
    )  # fmt: skip


def _plots(mine: Measured, current: Measured | None) -> Iterator[tuple[str, str]]:
    theirs = None if current is None else current.quality
    if mine.quality is not None:
        yield "Reliability: accuracy by confidence", plots.reliability(mine.quality)
        if mine.quality.confusion:
            yield "Confusion: share of each label's rows", plots.confusion(mine.quality)
        yield "F1 by class, worst first", plots.classes(mine.quality, theirs)
    if mine.robustness.shaken or mine.robustness.gradient:
        yield "Robustness: accuracy on changed inputs", plots.robustness(mine, current)
    if mine.latency is not None:
        yield "Latency: share of runs done in time", plots.latency(mine, current)


def _details(mine: Measured) -> Iterator[str]:
    if mine.quality is not None and mine.quality.slices:
        ranked = sorted(mine.quality.slices, key=lambda one: one.accuracy)[:_GROUPS_SHOWN_MAX]
        yield "<h3>Slices, worst first</h3>"
        yield _table(
            ("slice", "n:rows", "n:accuracy", ""),
            [
                (escape(one.name), f"n:{one.rows}", f"n:{figure(one.accuracy)}",
                 "" if one.counts else "too few rows to count")
                for one in ranked
            ],
        )  # fmt: skip
    if mine.robustness.boundary:
        yield "<h3>Boundary values</h3>"
        rows = [
            (escape(one.name), "finite" if one.finite else "NaN or infinity",
             "as the reference variant" if one.agrees else "another winner than the reference variant")
            for one in mine.robustness.boundary
        ]  # fmt: skip
        yield _table(("inputs", "answers", "winner"), rows)
    if (found := mine.robustness.gradient) is not None:
        yield (
            f'<p class="dim">Gradient estimated from {found.queries} queries on {found.rows} rows: '
            f"accuracy {figure(found.clean)} as they are, {figure(found.random)} after a random step, "
            f"{figure(found.stepped)} after one along the gradient.</p>"
        )


def _parity(report: Report) -> Iterator[str]:
    if report.pairs:
        yield "<h2>Golden samples: variants side by side</h2>"
        rows = [
            (
                escape(pair.variant), escape(pair.other), f"n:{pair.agreement:.1%}",
                "n:not finite" if pair.difference_max is None else f"n:{pair.difference_max:.4g}",
                "within tolerance" if pair.within else '<span class="bad">out of tolerance</span>',
            )
            for pair in report.pairs
        ]  # fmt: skip
        yield _table(("variant", "other", "n:same winner", "n:largest difference", ""), rows)
    for variant, why in report.not_run.items():
        yield f'<p class="dim">{escape(variant)} did not run here: {escape(why)}</p>'


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Cells are HTML already; those that begin with "n:" are numbers, set to the right."""
    lines = ["".join(_cell("th", one) for one in head)]
    lines += ["".join(_cell("td", one) for one in row) for row in rows]
    return (
        f'<div class="scroll"><table>{"".join(f"<tr>{line}</tr>" for line in lines)}</table></div>'
    )


def _cell(kind: str, content: str) -> str:
    if content.startswith("n:"):
        return f'<{kind} class="n">{content[2:]}</{kind}>'
    return f"<{kind}>{content}</{kind}>"
