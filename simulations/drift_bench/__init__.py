"""How soon drift is named, and how often for nothing, on streams of real images."""
