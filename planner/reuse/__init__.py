"""The rules of approximate caching: what may begin from a stored image, how far along, and what is stored."""
