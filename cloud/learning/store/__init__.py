"""The loops, their cycles and the feature checks: tables in the learning database."""
