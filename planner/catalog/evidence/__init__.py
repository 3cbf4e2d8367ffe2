"""What planning by prompt rests on, estimated from a catalog and its profile."""
