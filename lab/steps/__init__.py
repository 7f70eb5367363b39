"""Labels of training steps, and what is learnt from them: ``python -m lab training-steps``."""
