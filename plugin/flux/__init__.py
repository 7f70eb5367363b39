"""Flux support: the submit filter that Flux loads, and reading and submitting with ``flux``
commands.

``frobnicator.py`` runs inside Flux with Flux's own Python, and imports nothing of Berth; all other
modules run in Berth's Python and use the ``flux`` command, never Flux's Python bindings.
"""
