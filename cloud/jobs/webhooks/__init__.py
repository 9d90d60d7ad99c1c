"""Results that go to their callers: signed, only to addresses that a stranger may name."""
