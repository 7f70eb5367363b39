"""Right-sizing of memory: advice at submission, and smaller memory requests for users who want
them.

``needs`` learns the largest peaks of past jobs, ``fitting`` compares a new job's request with them,
and ``guard`` is the state file of the helper that restores requests which were made too small.
"""
