"""The fleet's database: SQLite by default, PostgreSQL by its URL; tables and their migrations."""
