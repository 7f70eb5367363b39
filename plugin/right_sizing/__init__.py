"""Right-sizing of memory: advice at submission, and smaller memory requests for users who want
them.

``needs`` learns the largest peaks of past jobs, ``fitting`` says what a new job asks too much, and
``guard`` is what the helper that gives requests back tells the daemon.
"""
