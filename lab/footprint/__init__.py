"""How good predicted memory is: ``memory`` of ``python -m lab model-latency``."""
