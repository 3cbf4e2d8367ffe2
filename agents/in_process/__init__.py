"""A whole deployment in one process, without a broker."""
