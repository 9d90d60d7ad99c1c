"""Sockets, TLS and the clock: feeds `connection`, writes what it gives."""
