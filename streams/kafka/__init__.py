"""Clients of Kafka: admin, consumers, producers, transactions, groups and offsets."""
