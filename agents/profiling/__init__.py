"""Measures what a catalog's levels and cascades take and give."""
