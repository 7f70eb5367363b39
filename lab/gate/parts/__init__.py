"""One module for each part: ``figures(work)`` gives {figure id: value} without the part's name."""
