"""The HTTP gateway: asks for images on the topics for clients that do not speak Kafka."""
