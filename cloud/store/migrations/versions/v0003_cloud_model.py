"""Samples are searched by the cloud model that answered, too."""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The index anew. A few seconds for 500,000 samples, once."""
    op.drop_index("feedback_search", "feedback")
    op.create_index(
        "feedback_search", "feedback",
        ["seq", "edge_model", "received_at", "device", "edge_version", "reason", "share", "label",
         "label_source", "contradicted", "edge_label", "cloud_label", "cloud_confidence", "draw",
         "row_bytes", "cloud_model"],
    )  # fmt: skip
