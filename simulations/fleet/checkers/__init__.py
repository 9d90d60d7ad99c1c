"""What must hold whatever goes wrong: one class an invariant, apart from what makes it go wrong."""
