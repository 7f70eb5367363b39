"""Front ends that turn PyTorch, Keras and Hugging Face models into graphs.

Each front end exports an ONNX file, which ``reader`` reads like any user's file. The frameworks
are optional and imported only when used; ``any_model.graph_of`` chooses the front end.
"""
