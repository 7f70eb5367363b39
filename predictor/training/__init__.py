"""Training: from measured profiles and public labels to a bundle. Never imported when serving."""
