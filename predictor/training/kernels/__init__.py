"""The shipped family: roofline prior and learnt residual, from kernel profiles."""
