"""The papers' published figures as catalogs: their files, and a model fitted to figures without a file."""
