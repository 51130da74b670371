"""Measures the table of numbers that the design holds; run with `make bench`."""
