"""What asks a registry over HTTP: commands, cloud workers, evaluators elsewhere."""
