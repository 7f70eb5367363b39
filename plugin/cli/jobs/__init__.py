"""``berth jobs``: decisions, their outcomes, and learning from past jobs; one file per command."""
