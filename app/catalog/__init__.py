"""The catalogue: every number the product did not compute, with its unit, range, source, date and status."""
