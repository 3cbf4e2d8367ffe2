"""The results of a simulated run: counts, figures and tables."""
