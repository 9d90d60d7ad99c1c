"""Each names the one before it; none changes once it has been released."""
