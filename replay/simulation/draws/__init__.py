"""Random numbers, and what is drawn with them for simulated requests."""
