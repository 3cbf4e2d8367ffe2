"""Fits discriminators: one kind a file."""
