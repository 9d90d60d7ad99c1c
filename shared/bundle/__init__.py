"""Bundle v1: the immutable unit that training hands to inference. A folder, or one archive file."""
