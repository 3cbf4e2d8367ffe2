"""What a simulated run comes to: counts, figures, tables and validation."""
