"""One client's session: what waits for it, what is in flight, what the store must know. Pure."""
