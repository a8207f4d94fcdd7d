"""Serving a language model: memory, one step, continuous batching, prompts and answers apart."""
