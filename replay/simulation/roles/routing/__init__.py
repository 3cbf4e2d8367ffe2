"""Simulated senders of jobs: the router, the discriminator, the search for orphaned jobs, the batch gate."""
