"""How long a test waits for what must happen."""

PATIENCE_S = 90  # how fast it is on a busy machine is not what these tests ask
