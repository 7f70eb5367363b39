"""The shipped family and its rivals, nested leave-one-kernel-out."""
