"""The report: one page, a table and a picture."""
