"""GNN + language model (thesis, chapter 7): a graph becomes one token of a causal language model.

Stage by stage, from one configuration: ``graph_token`` pre-trains the encoder, ``language_model``
puts its token into a prompt, ``stages`` trains one after the other; ``gnn_baseline`` is the GNN
alone and the paper's simpler variant with a sentence's embedding. Needs the extra ``language``;
checkpoints are local folders (``checkpoints``), never downloads.
"""
