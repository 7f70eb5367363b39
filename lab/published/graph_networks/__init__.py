"""DIPPM's graph networks (thesis, chapter 4) on torch-geometric's layers and loaders.

Layers of GraphSAGE, GCN, GAT, GIN and an MLP without edges; the thesis's readout (mean) and ours
(a model's time is the sum of its nodes' times). TraPPM and GNN + language model use the encoder.
"""
