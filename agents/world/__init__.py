"""The words and the layout of the tiny procedural world, which serving needs; the rest is in the lab."""
