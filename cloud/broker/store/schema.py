"""The tables of `broker.db`.

A message is a row of its own however many sessions wait for it. What is looked up by text has no
rowid beside it; messages and deliveries have nothing but their rowid.
"""

from typing import Final

VERSION: Final = 1
APPLICATION_ID: Final = 0x48794272
"""`HyBr` in the file's header: tells this store from another program's database."""

TABLES: Final = f"""
CREATE TABLE messages (
    message_id INTEGER PRIMARY KEY, topic TEXT NOT NULL, payload BLOB NOT NULL,
    qos INTEGER NOT NULL, retain INTEGER NOT NULL, properties BLOB NOT NULL,
    publisher TEXT NOT NULL, expires_at REAL
) STRICT;
CREATE TABLE deliveries (
    delivery_id INTEGER PRIMARY KEY, client_id TEXT NOT NULL, message_id INTEGER,
    qos INTEGER NOT NULL, retain INTEGER NOT NULL, identifiers TEXT NOT NULL,
    share TEXT NOT NULL, packet_id INTEGER NOT NULL
) STRICT;
CREATE TABLE sessions (
    client_id TEXT PRIMARY KEY, username TEXT, expiry_s REAL NOT NULL, ends_at REAL,
    will_message_id INTEGER, will_delay_s REAL NOT NULL, will_at REAL
) STRICT, WITHOUT ROWID;
CREATE TABLE subscriptions (
    client_id TEXT NOT NULL, topic_filter TEXT NOT NULL, options INTEGER NOT NULL,
    identifier INTEGER NOT NULL, PRIMARY KEY (client_id, topic_filter)
) STRICT, WITHOUT ROWID;
CREATE TABLE received (
    client_id TEXT NOT NULL, packet_id INTEGER NOT NULL, PRIMARY KEY (client_id, packet_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE retained (
    topic TEXT PRIMARY KEY, message_id INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
"""
