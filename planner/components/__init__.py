"""Which model components a worker holds in which tier of memory, and what is loaded ahead of its use."""
