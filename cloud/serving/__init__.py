"""Models that answer: what is loaded, when a batch leaves, and what a batch costs."""
