"""Command lines of the benches."""
