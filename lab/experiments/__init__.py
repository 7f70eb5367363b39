"""What ``python -m lab NAME`` runs: a line in ``registry`` and a module for each experiment.

A module has ``evaluate(options)``, which gives a report, and, where something is trained,
``train(options)``, which writes a bundle and gives a sentence. It is imported when it runs, after
its libraries were found, so it imports what it needs at its top.
"""
