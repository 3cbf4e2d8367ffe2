"""TLS, passwords, tokens and rights of the clients of a cluster."""
