"""Decisions as pure functions of values: no clocks, files, Kafka or torch."""
