"""Programs: a platform added to a bundle by profiles measured on it."""
