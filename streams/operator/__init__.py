"""What the commands of operators and clients do."""
