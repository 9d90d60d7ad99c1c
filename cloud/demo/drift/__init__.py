"""`hybridge demo drift`: cameras drift, the fleet says which, their samples teach, a rollout mends it."""
