"""DIPPM (thesis, chapter 4): graph networks that learn what a model graph takes to run.

``batch`` makes tensors of compact graphs, ``encoder`` has the kinds of network (GraphSAGE, GCN,
GAT, GIN, and an MLP that sees no edges), ``network`` puts static features and a run's columns
beside the readout and has a head for each target, ``fit`` trains it, ``export`` brings it to ONNX.
The layers are written here in plain PyTorch: they weigh neighbours by how often they occur in a
compact graph, which no library's do, and are a few lines each.
"""
