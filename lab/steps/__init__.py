"""Labels of training steps, and what is learnt from them: ``berth train --task dl-training``."""
