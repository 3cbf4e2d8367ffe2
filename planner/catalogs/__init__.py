"""What catalogs hold: the value, what was measured of it, what policies ask of it. `planner.catalog` is the door."""
