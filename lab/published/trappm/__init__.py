"""TraPPM (thesis, chapter 5): a graph auto-encoder learns from graphs that nobody measured, is
frozen, and stands beside a regressor that learns training time, memory and power.
"""
