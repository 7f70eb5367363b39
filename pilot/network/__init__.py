"""Measure the network between two nodes with two small C programs, one for MPI and one for TCP."""
