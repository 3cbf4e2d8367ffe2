"""The embedded Kafka broker and its schema registry."""
