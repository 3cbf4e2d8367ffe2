"""Writing records: the port of the roles, the one producer, partitions, and how large a record may be."""
