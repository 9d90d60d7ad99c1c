"""Trigger to rollout: which step comes next, what it must show, and whom it asks."""
