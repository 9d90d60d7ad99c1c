"""The same model in each server. These modules run in their server's own virtual environment."""
