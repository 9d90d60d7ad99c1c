"""What the agent counts and measures about itself."""
