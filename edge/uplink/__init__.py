"""The way to the cloud and back: what waits, what is sent when, and what the answers mean."""
