"""The inference route in its own protocol; everything else goes to aiohttp on the same port.

Behind aiohttp a batcher that could answer 40,000 requests a second answers 20,000 (FINDINGS 9). So
the one request that comes in those numbers (a plain `POST .../infer` of known length) is answered
here: read with httptools, run by the same `Inference`, refused by the same table. A connection whose
request is anything else (another route, a chunked or compressed body, an Expect) is handed to
aiohttp with its bytes, and stays there.
"""
