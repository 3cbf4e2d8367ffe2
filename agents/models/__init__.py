"""The learned parts: a tiny procedural world, models that paint it, and the judge of their pictures."""
