"""GNN + language model (thesis, chapter 7): a graph becomes one token of a causal language model.

``graph_token`` pre-trains the encoder, ``language_model`` puts its token into a prompt, ``stages``
trains one stage after the other from one configuration, ``evaluate_language`` compares. It needs
the extra ``language``.
"""
