"""Deep-learning models as graphs: read safely, counted, predicted.

``reader.read_graph(path, batch=8)`` gives a ``graph.ModelGraph`` through an unprivileged child.
What the child imports is standard library only: ``child``, ``onnx_file``, ``infer``,
``operators`` and what they need.
"""
