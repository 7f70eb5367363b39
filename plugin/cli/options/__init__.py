"""Options that mean the same in several commands."""
