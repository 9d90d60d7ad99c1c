"""Routes of training: jobs, their runs and logs, workers and quotas."""
