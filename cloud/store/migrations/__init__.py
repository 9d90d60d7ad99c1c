"""Alembic's scripts for the feedback database."""
