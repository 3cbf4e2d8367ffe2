"""Generates the images that a profile counts, and judges them."""
