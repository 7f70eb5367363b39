"""One file per schema change, named v0003_what.py and so on; never edited after its release."""
