"""Interop: other libraries, one file each, each behind an extra."""
