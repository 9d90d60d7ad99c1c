"""What samples are searched and drawn by, people's labels, data sets, sites, and a log of deletions."""

import numpy as np
import sqlalchemy as sa
from alembic import op

from cloud.store.draw import draw_of

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_ROWS = 1000
_COLUMNS = (
    ("share", sa.Float(53), "1"),
    ("cloud_label", sa.Integer(), "0"),
    ("cloud_confidence", sa.Float(53), "0"),
    ("label", sa.Integer(), "0"),
    ("label_source", sa.String(8), "cloud"),
    ("contradicted", sa.Integer(), "0"),
    ("draw", sa.BigInteger(), "0"),
)
_feedback = sa.table(
    "feedback",
    sa.column("seq", sa.BigInteger),
    sa.column("sample_id", sa.Uuid),
    sa.column("probabilities", sa.LargeBinary),
    *(sa.column(name, kind) for name, kind, _ in _COLUMNS),
)


def upgrade() -> None:
    """From samples alone. Half a minute for 500,000 of them, once."""
    for name, kind, default in _COLUMNS:
        op.add_column(
            "feedback", sa.Column(name, kind, nullable=False, server_default=sa.text(repr(default)))
        )
    op.create_table(
        "feedback_labels",
        sa.Column("sample_seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("by", sa.String(200), nullable=False),
        sa.Column("label", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("comment", sa.String(500), nullable=False),
        sa.PrimaryKeyConstraint("sample_seq", "by"),
    )
    op.create_table(
        "feedback_devices",
        sa.Column("device", sa.String(64), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("byte_count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("device"),
    )
    op.create_table(
        "feedback_sites",
        sa.Column("device", sa.String(64), nullable=False),
        sa.Column("site", sa.String(63), nullable=False),
        sa.PrimaryKeyConstraint("device"),
    )
    op.create_table(
        "feedback_data_sets",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("made_at", sa.Float(53), nullable=False),
        sa.Column("byte_count", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", "number"),
    )
    op.create_index("feedback_data_sets_by_file", "feedback_data_sets", ["sha256"])
    op.create_table(
        "feedback_data_set_names",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("last", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "feedback_data_set_devices",
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("device", sa.String(64), nullable=False),
        sa.Column("first_at", sa.Float(53), nullable=False),
        sa.Column("last_at", sa.Float(53), nullable=False),
        sa.Column("received", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", "device"),
    )
    op.create_index("feedback_data_set_devices_by_device", "feedback_data_set_devices", ["device"])
    op.create_table(
        "feedback_log",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("actor", sa.String(200), nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("comment", sa.String(500), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("byte_count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        sqlite_autoincrement=True,
    )
    _fill(op.get_bind())
    # after the rows are as they stay: it is made once, in order
    op.create_index(
        "feedback_search", "feedback",
        ["seq", "edge_model", "received_at", "device", "edge_version", "reason", "share", "label",
         "label_source", "contradicted", "edge_label", "cloud_label", "cloud_confidence", "draw",
         "row_bytes"],
    )  # fmt: skip


def _fill(connection: sa.Connection) -> None:
    """The cloud's word, which until now stood in the probabilities alone; what is drawn by; totals."""
    of = _feedback.c
    update = (
        sa.update(_feedback)
        .where(of.seq == sa.bindparam("at"))
        .values({
            name: sa.bindparam(f"new_{name}")
            for name in ("cloud_label", "cloud_confidence", "label", "draw")
        })
    )  # fmt: skip
    last = 0
    while True:
        rows = connection.execute(
            sa.select(of.seq, of.sample_id, of.probabilities)
            .where(of.seq > last)
            .order_by(of.seq)
            .limit(_ROWS)
        ).all()
        if not rows:
            break
        values = []
        for seq, sample, packed in rows:
            probabilities = np.frombuffer(packed, "<f4")
            label = int(probabilities.argmax())
            values.append({
                "at": seq, "new_cloud_label": label, "new_label": label,
                "new_cloud_confidence": min(1.0, float(probabilities[label])), "new_draw": draw_of(sample),
            })  # fmt: skip
        connection.execute(update, values)
        last = rows[-1][0]
    totals = "SELECT {0}, count(*), coalesce(sum(row_bytes), 0) FROM feedback"
    connection.execute(
        sa.text(f"INSERT INTO feedback_devices {totals.format('device')} GROUP BY device")
    )
    connection.execute(sa.text("INSERT INTO feedback_devices " + totals.format("''")))
