"""MIG: the slices that each GPU model supports (``geometry``) and their platforms (``slices``)."""
