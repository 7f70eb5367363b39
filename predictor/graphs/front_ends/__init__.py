"""Front ends: from frameworks to graphs: PyTorch, Keras, Paddle, Hugging Face configurations.

Each makes an ONNX file without weights and hands it to ``reader`` like any user's file. The
frameworks are extras, imported only when one is used; ``graph_of`` finds the right one.
"""
