"""What the benches have in common: topics, traffic, plans, catalogs and counts."""
