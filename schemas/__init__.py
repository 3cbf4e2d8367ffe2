"""The data that travels between processes: messages, their Avro schemas, ids, the topic table, the error root."""
