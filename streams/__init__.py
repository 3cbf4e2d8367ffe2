"""The edges: Kafka clients, codec, views, stores, settings, the local broker."""
