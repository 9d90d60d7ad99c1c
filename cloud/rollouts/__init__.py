"""Moving devices to another version in stages that open on evidence, and back when it is bad."""
