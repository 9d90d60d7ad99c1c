"""`make bench-drift`: `hybridge demo drift` for each of the six shifts, as a table and a plot."""
