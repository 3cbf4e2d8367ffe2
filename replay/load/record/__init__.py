"""What a live run left: its records read again, and counted as the simulator counts."""
