"""What crosses the wire: msgpack envelopes and how an image's pixels travel in them."""
