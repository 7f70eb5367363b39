"""A site that learns from its finished jobs, simulated on public measurements."""
