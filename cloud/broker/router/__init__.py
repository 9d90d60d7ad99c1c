"""All sessions together: who gets what, share groups, retained messages, wills, expiry. Pure."""
