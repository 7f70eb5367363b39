"""Learning from finished jobs: which jobs are used, whose forecasts they change, and the new
forecasts."""
