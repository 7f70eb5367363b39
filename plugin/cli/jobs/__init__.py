"""``berth jobs``: what was decided, what came of it, what past jobs teach; one file a command."""
