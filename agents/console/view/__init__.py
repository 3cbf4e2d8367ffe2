"""The console's state, read from the topics, in bounded memory."""
