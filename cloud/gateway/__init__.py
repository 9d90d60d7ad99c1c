"""Who calls the HTTP API: API keys and JSON Web Tokens, roles, and how much each caller may do."""
