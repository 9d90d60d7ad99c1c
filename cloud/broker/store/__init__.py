"""Durable sessions, queued and retained messages in SQLite, written in groups.

`committer` takes what changed to `database` on its own thread; `statements` makes SQL of it,
`schema` has the tables, `consistency` what a start may rely on.
"""
