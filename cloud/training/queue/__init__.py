"""Which training job runs next, where, and what it may cost: a pure scheduler over a store."""
