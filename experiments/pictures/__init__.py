"""Pictures of the documentation, drawn from our own runs and tables."""
