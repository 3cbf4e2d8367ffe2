"""The choice of a job's worker, and of the jobs that a worker takes at once."""
