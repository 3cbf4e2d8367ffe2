"""The formats that traces are read from."""
