"""What a site trains from its own runs: platforms added to bundles, relative performance.

Needs the extra ``train``; nothing that serves imports it.
"""
