"""Training: from measurements and public labels to bundles. Never imported when serving."""
