"""Random numbers, and the draws for simulated requests: hardness, classes, confidences, qualities and delays."""
