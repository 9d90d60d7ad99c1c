"""A region's fleet, asked over HTTP."""
