"""Trees over configurations of language models."""
