"""How commands print: tables, intervals, JSON, progress."""
