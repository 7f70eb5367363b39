"""What connects two nodes, as programs see it: two small C programs, and who starts them."""
