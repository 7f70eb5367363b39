"""Flux: the submit filter it loads, and the commands by which Berth reads it and gives it jobs.

``frobnicator.py`` runs inside Flux, alone, with Flux's Python; everything else runs in Berth's
and speaks to Flux by its ``flux`` command, never by its bindings.
"""
