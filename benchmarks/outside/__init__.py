"""Judges that others have written: their data, their rules and their metrics, with our codes."""
