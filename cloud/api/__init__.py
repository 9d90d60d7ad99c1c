"""HTTP: health, metrics, status."""
