"""How good predicted memory is: ``memory`` of ``berth evaluate --task dl``."""
