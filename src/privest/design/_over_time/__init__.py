"""One budget over the readings of a stream."""
