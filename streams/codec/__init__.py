"""Messages to bytes and back, with headers and schemas."""
