"""report.html."""

from html import escape

from cloud.registry.evaluation.figures import Report


def render(report: Report) -> str:
    return f"<pre>{escape(report.model_dump_json(indent=2))}</pre>"
