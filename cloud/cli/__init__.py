"""`hybridge ...`: the operators' commands. Each imports what it needs only when it runs."""
