"""Which level serves a request: at first, after an image of it, and once its variant has lost its workers."""
