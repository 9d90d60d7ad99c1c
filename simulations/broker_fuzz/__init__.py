"""`make fuzz-broker`: packets of the whole grammar, broken on purpose, against the embedded broker.

`grammar` writes packets that are valid for where a client stands (`client`), `mutations` breaks
them and says what a broker must answer, `stack` feeds the pure cores in this process and judges
every answer (`answers`), `live` does the same to a broker process over TCP beside a client whose
messages must keep flowing. A failure is kept with its seed and its bytes (`failures`).
"""
