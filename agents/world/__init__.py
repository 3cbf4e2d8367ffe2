"""The words and the layout of the tiny procedural world, which models need when they serve; the rest is in the lab."""
