"""Every file that the registry keeps, once, under the SHA-256 of its bytes: a directory or a bucket."""
