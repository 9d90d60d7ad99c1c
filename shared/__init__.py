"""What both ends share: wire schemas, bundles, engines, errors, ids, logs."""

__version__ = "0.1.0"
