"""`python -m lab model-latency`: splits, figures and tables of predicted times of model graphs."""
