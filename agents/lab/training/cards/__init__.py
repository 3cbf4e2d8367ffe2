"""Model cards of the shipped folders."""
