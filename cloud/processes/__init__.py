"""Several serving processes behind one port: a parent that starts, watches and ends them."""
