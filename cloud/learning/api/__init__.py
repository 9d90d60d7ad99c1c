"""The HTTP API of feedback, training and the loop."""
