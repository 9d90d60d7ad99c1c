"""One page for people: samples and their labels, jobs and their curves, loops with go and stop."""
