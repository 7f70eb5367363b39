"""xAMM's claim tested: the paper's ablations on the same folds, with the spread over seeds."""
