"""Time of a model graph on a platform that few or no models were ever timed on.

A Gaussian process over (graph, platform, software) whose covariance says how platforms resemble
each other; numpy only. It is learnt in ``lab/transfer``.
"""
