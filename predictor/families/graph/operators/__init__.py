"""Time of one operator on any GPU, from its data sheet and the operator's shapes.

Physics (roofline, power, waves, launch) times a learnt utilisation in (0, 1]: the idea of NeuSight
(ASPLOS 2025). Serving side: numpy and onnxruntime.
"""
