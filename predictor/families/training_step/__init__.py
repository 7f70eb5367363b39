"""A training step of a model graph (forward, backward, optimiser): its time and memory.

``law`` turns what a step does into seconds at learnt rates; ``bundle`` holds what was learnt,
``predictor`` answers. Serving side: numpy and onnxruntime.
"""
