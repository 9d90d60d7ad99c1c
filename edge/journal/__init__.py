"""What the agent has on disk, in one SQLite file: outbox, final answers, loss ledger, cursors."""
