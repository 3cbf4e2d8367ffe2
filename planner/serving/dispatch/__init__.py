"""Which worker gets a job, and what a worker takes at once."""
