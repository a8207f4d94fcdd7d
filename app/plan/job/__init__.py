"""The training job of a plan."""
