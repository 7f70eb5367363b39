"""Commands for administrators: the site, its nodes, its services."""
