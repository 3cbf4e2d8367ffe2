"""The parts that the benches share: topics, traffic, plans, catalogs and counts."""
