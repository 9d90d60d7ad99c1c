"""The devices of a region: who they are, what they should be, what they say that they are."""
