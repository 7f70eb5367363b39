"""Memory that jobs need: advice at submission, and smaller requests for who asked for them.

``needs`` finds the largest peaks of past jobs, ``self_sizing`` knows commands that take what their
job was given, ``fitting`` says what a new job asks too much, ``guard`` is what the helper
that gives requests back tells the daemon.
"""
