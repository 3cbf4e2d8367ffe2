"""The work behind the commands of operators and clients; `streams/commands` parses options and prints."""
