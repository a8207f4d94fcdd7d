"""One plan of serving: what a cluster answers, how soon, and what limits it."""
