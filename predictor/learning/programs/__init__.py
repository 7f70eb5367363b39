"""Adding a platform to a bundle for programs, from profiles measured on that platform."""
