"""`berth evaluate --task dl`: splits, figures and tables of predicted times of model graphs."""
