"""Profiles from other tools' files."""
