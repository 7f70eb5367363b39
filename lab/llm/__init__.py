"""Configurations of language models: every family by the same splits."""
