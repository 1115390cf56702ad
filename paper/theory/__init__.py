"""What the paper proves, measured on data."""
