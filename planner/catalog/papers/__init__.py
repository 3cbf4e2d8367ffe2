"""What the papers published, as catalogs: their files, and a model fitted to figures that have no file."""
