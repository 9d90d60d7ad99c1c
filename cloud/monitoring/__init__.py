"""What the cloud counts about itself."""
