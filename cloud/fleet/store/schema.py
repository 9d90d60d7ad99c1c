"""The fleet's tables, portable between SQLite and PostgreSQL.

`document` and what devices reported are JSON of `cloud/fleet/documents.py`,
`cloud/rollouts/documents.py` and `shared/fleet/`; columns beside them are there to be searched, or
to change without the document. The conditions of indexes are as SQLAlchemy writes them in queries:
SQLite compares them by the letter. Changed only by a new file in `migrations/versions/`.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)

metadata = MetaData()

devices = Table(
    "fleet_devices",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("labels", Text, nullable=False),  # JSON
    Column("group_name", String(64), nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("enrolled_at", Float(53)),
    Column("revoked_at", Float(53)),
    Column("quarantined_at", Float(53)),
    Column("quarantined_until", Float(53)),  # none: until an operator ends it
    Column("quarantine_why", String(500), nullable=False),
    Column("online", Boolean, nullable=False),
    Column("online_since", Float(53)),
    Column("last_seen", Float(53)),
    Column("changes", Text, nullable=False),  # of presence, JSON
    Column("strikes", Integer, nullable=False),
    Column("struck_at", Float(53)),
    Column("arch", String(40), nullable=False),  # from here on: what the device says
    Column("engines", Text, nullable=False),  # names, with a blank between two
    Column("model", String(64), nullable=False),
    Column("version", String(20), nullable=False),
    Column("model_sequence", BigInteger, nullable=False),  # -1: none came
    Column("model_at", Float(53), nullable=False),
    Column("model_generation", BigInteger, nullable=False),
    Column("profile_sequence", BigInteger, nullable=False),
    Column("profile_at", Float(53), nullable=False),
    Column("profile_generation", BigInteger, nullable=False),
    Column("inventory_sequence", BigInteger, nullable=False),
    Column("inventory_at", Float(53), nullable=False),
    Column("model_report", Text),
    Column("profile_report", Text),
    Column("inventory", Text),
    Column("unsettled", Boolean, nullable=False),  # its desired state has to be looked at
    Index("fleet_devices_of_group", "group_name", "id"),
    Index("fleet_devices_unsettled", "id", sqlite_where=text("unsettled = 1"),
          postgresql_where=text("unsettled")),
    Index("fleet_devices_quarantine_ends", "quarantined_until",
          sqlite_where=text("quarantined_until IS NOT NULL"),
          postgresql_where=text("quarantined_until IS NOT NULL")),
)  # fmt: skip
certificates = Table(
    "fleet_certificates",
    metadata,
    Column("serial", String(40), primary_key=True),
    Column("device", String(64), nullable=False),  # stays when the device is removed
    Column("not_after", Float(53), nullable=False),
    Column("revoked", Boolean, nullable=False),
    Column("document", Text, nullable=False),
    Index("fleet_certificates_of_device", "device", "not_after"),
    Index("fleet_certificates_end", "not_after"),
)
tokens = Table(
    "fleet_tokens",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("secret_sha256", String(64), nullable=False),
    Column("expires_at", Float(53), nullable=False),
    Column("document", Text, nullable=False),
    Index("fleet_tokens_end", "expires_at"),
)
groups = Table(
    "fleet_groups",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("document", Text, nullable=False),
)
profiles = Table(
    "fleet_profiles",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("document", Text, nullable=False),
)
desired = Table(
    "fleet_desired",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("section", String(10), primary_key=True),
    Column("generation", BigInteger, nullable=False),
    Column("published", Boolean, nullable=False),
    Column("document", Text, nullable=False),
    Index("fleet_desired_unpublished", "device", "section", sqlite_where=text("published = 0"),
          postgresql_where=text("NOT published")),
)  # fmt: skip
rollouts = Table(
    "fleet_rollouts",
    metadata,
    Column("id", String(80), primary_key=True),
    Column("section", String(10), nullable=False),
    Column("subject", String(64), nullable=False),  # the model; empty for a profile
    Column("group_name", String(64), nullable=False),
    Column("status", String(20), nullable=False),
    Column("active", Boolean, nullable=False),  # running, paused or undoing
    Column("parks", Boolean, nullable=False),  # aborted: its devices stay as they are
    Column("revision", BigInteger, nullable=False),
    Column("created_at", Float(53), nullable=False),
    Column("document", Text, nullable=False),
    Column("record", LargeBinary, nullable=False),
    Index("fleet_rollouts_in_order", "created_at", "id"),
    # a device has one profile, whatever its name: so one rollout of any profile
    Index("fleet_rollouts_one_active", "section", "subject", "group_name", unique=True,
          sqlite_where=text("active = 1"), postgresql_where=text("active")),
)  # fmt: skip
rollout_devices = Table(
    "fleet_rollout_devices",
    metadata,
    Column("rollout", String(80), primary_key=True),
    Column("device", String(64), primary_key=True),
    Column("section", String(10), nullable=False),
    Column("active", Boolean, nullable=False),  # of its rollout
    Column("phase", String(20), nullable=False),
    Column("document", Text, nullable=False),
    Column("record", LargeBinary, nullable=False),
    Index("fleet_rollout_devices_by_phase", "rollout", "phase", "device"),
    Index("fleet_rollout_devices_held_once", "device", "section", unique=True,
          sqlite_where=text("active = 1"), postgresql_where=text("active")),
)  # fmt: skip
events = Table(
    "fleet_events",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("device", String(64)),
    Column("rollout", String(80)),
    Column("document", Text, nullable=False),
    Index("fleet_events_of_device", "device", "seq"),
    Index("fleet_events_of_rollout", "rollout", "seq"),
)
drift_alarms = Table(
    "fleet_drift_alarms",
    metadata,
    Column("id", String(80), primary_key=True),
    Column("is_on", Boolean, nullable=False),
    Column("opened_at", Float(53), nullable=False),
    Column("document", Text, nullable=False),
    Index("fleet_drift_alarms_in_order", "opened_at", "id"),
    Index("fleet_drift_alarms_on", "opened_at", sqlite_where=text("is_on = 1"),
          postgresql_where=text("is_on")),
)  # fmt: skip
drift_record = Table(
    "fleet_drift_record",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # there is one
    Column("document", Text, nullable=False),
)
