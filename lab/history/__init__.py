"""Run times from past jobs on a trace, in order of time, beside simple predictors."""
