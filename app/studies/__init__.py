"""Questions that ask many plans."""
