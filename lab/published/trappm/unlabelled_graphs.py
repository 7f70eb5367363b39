"""Graphs that nobody measured: timm's, Hugging Face configurations', and random networks.

The thesis's 25,053 unlabelled graphs are timm's architectures varied and are not at hand. Graphs
stand at batch 1 (``node_features``), so batches would add none; image sizes and depths do.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from berth.pilot.errors import BerthError
from berth.predictor.graphs.front_ends import huggingface, torch_module
from berth.predictor.graphs.graph import ModelGraph
from lab.latency import timm_runs

_TEXT = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4,
         "num_attention_heads": 4, "vocab_size": 30000}  # fmt: skip
_DECODER = {**_TEXT, "num_key_value_heads": 2}
CONFIGURATIONS: tuple[tuple[dict[str, Any], dict[str, int]], ...] = (
    ({"model_type": "bert", **_TEXT}, {"sequence": 128}),
    ({"model_type": "roberta", **_TEXT, "hidden_size": 512}, {"sequence": 256}),
    ({"model_type": "electra", **_TEXT}, {"sequence": 64}),
    ({"model_type": "distilbert", "dim": 384, "n_layers": 6, "n_heads": 6}, {"sequence": 128}),
    ({"model_type": "gpt2", "n_embd": 384, "n_layer": 6, "n_head": 6}, {"sequence": 128}),
    ({"model_type": "llama", **_DECODER}, {"sequence": 128}),
    ({"model_type": "qwen2", **_DECODER}, {"sequence": 64}),
    ({"model_type": "vit", **_TEXT, "image_size": 160}, {}),
    ({"model_type": "deit", **_TEXT, "hidden_size": 192, "num_attention_heads": 3}, {}),
    ({"model_type": "convnext", "depths": [2, 2, 6, 2], "hidden_sizes": [64, 128, 256, 512]}, {}),
    ({"model_type": "resnet", "depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512],
      "embedding_size": 64}, {}),
    ({"model_type": "regnet", "depths": [1, 2, 4, 2], "hidden_sizes": [32, 64, 128, 256],
      "groups_width": 16}, {}),
    ({"model_type": "poolformer"}, {}),
    ({"model_type": "segformer"}, {"image": 256}),
    ({"model_type": "mobilenet_v2"}, {"image": 192}),
)  # fmt: skip
"""Settings and sizes; shapes are small, structures real."""
RANDOM_NETWORKS = 8


def unlabelled(
    *, seed: int = 0, advance: Callable[[str], None] = lambda _: None
) -> dict[str, tuple[ModelGraph, ...]]:
    """Return graphs by source, at batch 1. What the machine cannot export is left out.

    Raises ToolMissing where timm's graphs are absent.
    """
    found: dict[str, list[ModelGraph]] = {"timm": list(timm_runs.graphs().graphs)}
    found["Hugging Face configurations"] = list(_configured(advance))
    found["random networks"] = list(_drawn(seed, advance))
    return {name: tuple(graphs) for name, graphs in found.items()}


def _configured(advance: Callable[[str], None]) -> Iterator[ModelGraph]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        for settings, sizes in CONFIGURATIONS:
            path.write_text(json.dumps(settings), encoding="utf-8")
            try:
                yield huggingface.graph_of(path, batch=1, sizes=sizes)
            except BerthError as error:
                advance(f"{settings['model_type']}: {error}")
            else:
                advance(settings["model_type"])


def _drawn(seed: int, advance: Callable[[str], None]) -> Iterator[ModelGraph]:
    import torch  # noqa: PLC0415 - the extra

    draw = np.random.default_rng(seed)
    for number in range(RANDOM_NETWORKS):
        side = int(draw.choice([96, 128, 192, 256]))
        network = random_network(draw)
        try:
            yield torch_module.graph_of(network, inputs=(torch.zeros(1, 3, side, side),))
        except BerthError as error:
            advance(f"random network {number}: {error}")
        else:
            advance(f"random network {number}")


def random_network(draw: np.random.Generator) -> Any:
    """Return a convolutional network of random depth, widths, branches and activations."""
    import torch  # noqa: PLC0415 - the extra
    from torch import nn  # noqa: PLC0415

    class Branches(nn.Module):
        """The sum of an input, a convolution of it, and perhaps a gate."""

        def __init__(self, width: int) -> None:
            super().__init__()
            kernel = int(draw.choice([1, 3, 5, 7]))
            groups = int(draw.choice([1, width]))
            kind = [nn.ReLU, nn.SiLU, nn.GELU, nn.Hardswish][draw.integers(4)]
            self.body = nn.Sequential(
                nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=groups),
                nn.BatchNorm2d(width), kind(), nn.Conv2d(width, width, 1),
            )  # fmt: skip
            self.gate = bool(draw.integers(2))

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            made: torch.Tensor = self.body(image)
            if self.gate:
                made = made * made.mean((2, 3), keepdim=True).sigmoid()
            return image + made

    layers: list[nn.Module] = []
    width = 3
    for _ in range(int(draw.integers(2, 5))):
        wider = int(draw.choice([16, 24, 32, 48, 64])) + width
        layers.append(nn.Conv2d(width, wider, 3, stride=2, padding=1))
        layers += [Branches(wider) for _ in range(int(draw.integers(1, 4)))]
        width = wider
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))
