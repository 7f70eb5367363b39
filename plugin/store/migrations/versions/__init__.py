"""One file a schema change, named v0001_what.py and so on; never edited once released."""
