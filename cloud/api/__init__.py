"""HTTP: the API of the inference tier, and what every HTTP API of ours is made of."""
