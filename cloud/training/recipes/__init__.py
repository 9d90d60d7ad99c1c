"""From a job's specification to a bundle. Needs `[train]`; runs in a job's own process."""
