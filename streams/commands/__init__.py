"""The commands of operators and clients: options, help and printed output; the work is done in `streams/operator`."""
