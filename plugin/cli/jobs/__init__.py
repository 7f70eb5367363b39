"""Commands about jobs: what was decided, what came of it, what they wait for."""
