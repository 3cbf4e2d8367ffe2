"""What a run of a question is: its cell, its trace, its fleet; and who runs many and keeps what they came to."""
