"""The search for a plan where the program is too large to be solved whole."""
