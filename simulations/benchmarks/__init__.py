"""`make bench`: what this machine does, as ratios against a floor measured in the same run."""
