"""What a site learns: from finished jobs, and by training from its own runs.

Modules of this folder need numpy alone; its sub-packages need the extra ``train``. The daemon
imports none of them.
"""
