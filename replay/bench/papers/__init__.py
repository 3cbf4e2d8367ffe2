"""Repeats the papers' comparisons in simulation: `pochade bench papers`. One file a question."""
