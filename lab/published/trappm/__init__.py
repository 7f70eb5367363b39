"""TraPPM (thesis, chapter 5): a graph auto-encoder learns from graphs that nobody measured, is
frozen, and stands beside a regressor that learns training time, memory and power.

``corpus`` gives the unlabelled graphs, ``graphs`` turns them into tensors, ``links`` is the
auto-encoder and its loss, ``pretrain`` trains it, ``regressor`` and ``fit`` are the second phase.
"""
