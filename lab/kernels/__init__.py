"""The shipped family of programs and its baselines, nested leave-one-kernel-out."""
