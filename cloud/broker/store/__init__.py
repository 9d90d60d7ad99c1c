"""Durable sessions, queued and retained messages in SQLite, written in groups."""
