"""The same learning, encoding and search on many machines: existing engines do the work."""
