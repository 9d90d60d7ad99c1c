"""`make chaos-broker`: a broker process under clients that come, break and die, and kill -9 itself.

The storm (`storm`) starts a broker and client processes (`publishers`, `subscribers`, `guests`),
kills them at random, then heals and lets everything drain. Clients write what they saw into
journals that survive kill -9 (`journal`); `checks` reads those afterwards and knows nothing else.
"""
