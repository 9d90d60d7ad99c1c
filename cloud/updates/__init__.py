"""A worker takes released models from the registry, as devices do (`edge/updates`)."""
