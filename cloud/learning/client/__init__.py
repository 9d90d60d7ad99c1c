"""The learning process over HTTP, for commands."""
