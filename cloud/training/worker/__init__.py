"""`hybridge-cloud train-worker`: claims jobs, runs each in a process of its own, never in the API's."""
