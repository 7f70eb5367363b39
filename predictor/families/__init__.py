"""One folder a family: a way to predict one or more kinds of workload, behind ``core.family``."""
