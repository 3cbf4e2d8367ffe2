"""Files of catalogs, profiles and published figures."""
