"""The gate of headline figures: no change may make a published figure worse beyond its tolerance.

``figures.toml`` lists the figures by part, ``frozen.json`` their values before, ``parts/`` computes
them. ``make gate`` runs the short parts, ``make gate-full`` all of them.
"""
