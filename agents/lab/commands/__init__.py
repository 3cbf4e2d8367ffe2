"""Command lines of the laboratory."""
