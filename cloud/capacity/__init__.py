"""How much this tier can answer, what a given load needs, and when to have more or less of it."""
