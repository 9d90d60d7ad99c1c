"""How a file that is here becomes a newer one, from few bytes: the format, and applying it.

The idea is bsdiff's (Colin Percival, "Naive differences of executable code", 2003): copy a range of
the old file and add a difference to it, byte by byte modulo 256. Where the ranges come from is the
encoder's business (`cloud/registry/deltas`). Of int8 weights that were tuned a little most differ by
0, 1 or -1: four differences go into one byte, where zstandard's entropy coder gives frequent ones
less than the bit that each would take alone, and does it a hundred times faster than its highest
level packs them unjoined. Integers are little-endian.

    bytes  what
    8      "HYDELTA" and the format's version, 1
    32     SHA-256 of the old file
    32     SHA-256 of the new file
    8      size of the old file
    8      size of the new file
    8      size of all literals
    8      number of operations
    4 x 8  compressed sizes of what follows
    ...    operations, codes, others, literals: a zstandard frame each, of a window of at most 8 MiB;
           nothing at all where there is nothing to tell

An operation is two u64: an offset in the old file and a length: copy that range and add as many
differences; or 2^64 - 1 and a length: as many literal bytes. In order, they make the new file.
A code is two bits, the lowest ones of a byte first: 0, 1, 2 for a difference of 0, 1, 255, and
3 for the next byte of `others`.
"""
