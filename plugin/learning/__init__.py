"""Learning from finished jobs: which count, for whom, and the forecasts that follow."""
