"""Answers and features that were computed before: which are kept, and for how long they count."""
