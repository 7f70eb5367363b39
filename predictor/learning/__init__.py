"""Learning at a site: from finished jobs, and by training models on the site's own runs.

Modules of this folder need numpy alone; its sub-packages need the extra ``train``. The daemon
imports none of them.
"""
