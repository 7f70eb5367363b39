"""For tests that draw or explain."""

from toy_bundle import predictor, toy_bundle

__all__ = ["predictor", "toy_bundle"]
