"""The HTTP side: bodies and answers, limits of size, time and number, stalled clients."""
