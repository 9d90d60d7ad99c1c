"""How a file that is here becomes a newer one, from few bytes: the format, and applying it.

The idea is bsdiff's (Colin Percival, "Naive differences of executable code", 2003): copy a range of
the old file and add a difference to it, byte by byte modulo 256, so that weights which moved a little
leave small, repetitive bytes for zstandard. Where the ranges come from is the encoder's business
(`cloud/registry/deltas`). Integers are little-endian.

    bytes  what
    8      "HYDELTA" and the format's version, 1
    32     SHA-256 of the old file
    32     SHA-256 of the new file
    8      size of the old file
    8      size of the new file
    8      size of all literals
    4      number of operations
    4      compressed size of the operations
    8      compressed size of the differences
    8      compressed size of the literals
    ...    operations, differences, literals: a zstandard frame each, of a window of at most 8 MiB;
           nothing at all where there is nothing to tell

An operation is two u64: an offset in the old file and a length: copy that range and add as many bytes
of differences; or 2^64 - 1 and a length: as many literal bytes. In order, they make the new file.
"""
