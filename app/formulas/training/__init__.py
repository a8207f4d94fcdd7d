"""The training step: time, memory, progress, and the best parallelism."""
