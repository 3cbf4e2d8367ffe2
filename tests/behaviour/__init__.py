"""Records how the project behaves and compares two records: see `README.md`."""
