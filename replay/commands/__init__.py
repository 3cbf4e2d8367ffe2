"""Command lines of this room."""
