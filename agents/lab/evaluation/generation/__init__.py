"""Makes and judges the images that an evaluation counts."""
