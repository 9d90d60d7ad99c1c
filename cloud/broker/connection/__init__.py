"""One network connection's side of the protocol, from CONNECT to its end. Pure."""
