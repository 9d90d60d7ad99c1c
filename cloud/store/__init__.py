"""What the cloud keeps in SQL: SQLite by default, PostgreSQL at scale."""
