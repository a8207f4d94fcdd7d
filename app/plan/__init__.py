"""One scenario and one catalogue make one plan."""
