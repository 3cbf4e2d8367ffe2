"""The vector store of what may be reused: exact search and Milvus behind one port, and one check of all they say."""
