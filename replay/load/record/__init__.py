"""Reads the records of a live run again, and counts them as the simulator counts."""
