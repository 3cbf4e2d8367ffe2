"""The faults that `pochade chaos` can cause, one kind a file."""
