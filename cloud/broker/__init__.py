"""The embedded MQTT broker: what a site with one cloud process uses instead of installing one.

It speaks MQTT 5.0 and 3.1.1 (OASIS texts; section numbers in docstrings are those of 5.0 unless
they say 3.1.1), QoS 0, 1 and 2. docs/broker.md is its operator's page, ADR 2 says why it exists.

A byte's way: `shell.peer` reads it, `codec` makes packets of bytes, `access` says who the client is
and what it may do, `connection` speaks the protocol with one client, `router` finds who gets a
message, `session` holds what each is owed, and the way back is `codec` and `shell` again. What must
outlive the process is noted in `session.changes` and written by `store`; `operations` is what an
operator sees.

`codec`, `session`, `router`, `connection` and `access` are pure: packets and time in, packets and
bytes out. `launch` is what the cloud process calls; it can also start Mosquitto or point at a
broker that somebody else runs. `service` is the broker process itself.
"""
