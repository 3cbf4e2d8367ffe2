"""What becomes of the jobs that a worker has taken."""
