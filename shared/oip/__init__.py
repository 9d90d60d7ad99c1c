"""The Open Inference Protocol v2 as a codec without I/O: bytes in, tensors out, and back.

Source: the KServe/Triton "predict protocol v2" with its binary tensor data extension. Any transport
can carry it: the caller hands over a body and the text of `Inference-Header-Content-Length`.
"""
