"""`hybridge demo`: the main job with real processes on real images, and the table that judges it."""
