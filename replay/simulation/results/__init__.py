"""The results of a simulated run: counts, figures, tables and validation."""
