"""The words, the layout and the grammar of the tiny procedural world, which serving needs; the rest is in the lab."""
