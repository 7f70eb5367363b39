"""GNN + language model (thesis, chapter 7): a graph becomes one token of a causal language model.

Stage by stage: ``masked`` pre-trains the encoder, ``model`` puts its graph token into a prompt,
``stages`` trains one after the other from ``config``, ``sentence`` is the paper's simpler variant.
Needs the extra ``language``; checkpoints are local folders (``pretrained``), never downloads.
"""
