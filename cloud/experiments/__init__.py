"""Two or more versions of a cloud model side by side: who gets which, and what came of each."""
