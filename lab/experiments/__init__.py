"""What ``python -m lab NAME`` runs: a line in ``registry`` names the module of each experiment.

Such a module stands with its subject. It has ``evaluate(options)``, which returns a report, and,
where something is trained, ``train(options)``, which writes a bundle and returns a sentence. It is
imported when it runs, after its libraries were found, so it imports what it needs at its top.
"""
