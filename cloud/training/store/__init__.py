"""The learning database: jobs, workers, quotas, runs, points and logs; tables and their migrations."""
