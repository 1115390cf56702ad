"""What builds the documentation site; not in the wheel."""
