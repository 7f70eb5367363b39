"""Networks (PyTorch) that families of relative performance are made of; the extra ``deep``."""
