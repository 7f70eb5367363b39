"""How Sphinx makes the documentation site and the man page: ``make site``."""

import re

from berth.pilot.version import VERSION

project = "Berth"
author = "The Berth developers"
release = version = VERSION
extensions = ["myst_parser", "sphinx_click"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
html_theme = "furo"
html_title = f"Berth {VERSION}"
html_show_sourcelink = False
html_copy_source = False
man_pages = [("commands", "berth", "puts each job where it runs best", author, 1)]
man_show_urls = False


_MARKUP = re.compile(r"[*|`]|_(?=\W|$)")


def setup(app):
    """Help texts are plain: what docutils would take for markup in them is none."""

    def plain(_app, _context, lines):
        lines[:] = [_MARKUP.sub(r"\\\g<0>", line) for line in lines]

    for part in ("description", "epilog"):
        app.connect(f"sphinx-click-process-{part}", plain)
