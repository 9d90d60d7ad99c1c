"""Files and small documents over HTTP: resumed, paced, bounded, and believed only by their hash."""
