"""Model graphs: a platform added to a bundle by runs of ``berth pilot dl``."""
