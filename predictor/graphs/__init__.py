"""Read ONNX models as graphs, count their operations and bytes, predict their run times.

``reader.read_graph(path, batch=8)`` returns a ``graph.ModelGraph``. The file is parsed in an
unprivileged child process, whose modules (``child``, ``onnx_file``, ``infer``, ``operators`` and
the modules that these import) use the standard library only.
"""
