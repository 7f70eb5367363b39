"""A valgrind tool of Berth's own: all that a pilot counts by emulation, exact, in one run."""
