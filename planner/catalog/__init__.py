"""What there is to plan with: the catalog as a value, what was measured of it, and what policies ask of it."""
