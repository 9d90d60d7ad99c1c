"""`hybridge-cloud learning`: feedback, training jobs and the loop of one region, behind one API."""
