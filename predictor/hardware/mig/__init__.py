"""MIG: what each GPU can be cut into (``geometry``), and platforms of the slices (``slices``)."""
