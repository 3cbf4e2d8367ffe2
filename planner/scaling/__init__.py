"""The number of workers of each variant, and the choice of these workers."""
