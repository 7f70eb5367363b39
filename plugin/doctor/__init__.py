"""``berth site doctor``: checks an installation; one file per subject of the checks."""
