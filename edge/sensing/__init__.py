"""Where samples come from: a folder being filled, a data set played back.

Each source is an `edge.answers.Source`. Its cursor travels with its samples into one transaction,
so that after a crash it goes on where the record ends. One bad file never stops a source.
"""
