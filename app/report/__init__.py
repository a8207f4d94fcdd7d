"""A plan for people, without HTTP."""
