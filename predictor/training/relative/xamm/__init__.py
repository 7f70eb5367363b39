"""xAMM: attention embeddings of profiles and abstract machine models into ensembles of trees.

Dhakal et al., "xAMM: 'Attention' to details improves cross-platform prediction accuracy"
(LLNL-CONF-871860).
"""
