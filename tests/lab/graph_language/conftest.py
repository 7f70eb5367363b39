"""A tiny random language model with a tiny tokenizer, made once; a corpus; stages over both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small products are slower on several threads, much slower beside other programs."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def checkpoint_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A randomly initialised causal language model of a few thousand weights."""
    for module in ("torch", "transformers", "peft"):
        pytest.importorskip(module)
    from lab.published.graph_language.checkpoints import (
        RandomModel,
        write_random,
    )

    folder = tmp_path_factory.mktemp("tiny") / "model"
    write_random(folder, RandomModel(layers=2, width=16, heads=2), TEXTS, 0)
    return folder


TEXTS = (
    "Summarise the graph",
    "8 nodes, 9 edges, depth 8, 50.8 k MACs, 898 M parameters: Conv 2, MatMul 1, Add 1, Relu 1",
    "Inference time on 3090, fp32, nchw, torch 291, eager, batch 1, image 8:",
)


@contextmanager
def silent(what: str, total: int) -> Iterator[Callable[[], None]]:
    yield lambda: None


@pytest.fixture
def make_stages(checkpoint_folder: Path) -> Callable[..., object]:
    """``make_stages(folder, **changes)``: stages over the tiny table, kept in ``folder``."""
    import tiny_latency

    from lab.published.graph_language.corpus import corpus
    from lab.published.graph_language.language_config import LanguageConfig
    from lab.published.graph_language.stages import Stages

    def made(folder: Path, **changes: object) -> Stages:
        stage = {"epochs": 2, "batch": 8, "language_rate": 1e-3}
        settings = {
            "rows": 20,
            "samples": 3,
            "test_rows": 6,
            "encoder": {"layers": 2, "width": 16},
            "pretrain": {"epochs": 2, "batch": 4},
            "language_model": {"path": str(checkpoint_folder), "rank": 4, "dropout": 0.1},
            "align": stage | {"epochs": 1, "batch": 4},
            "regress": stage,
            "adapt": [{"device": "5090", "batch": 2}, {"family": "vit", "batch": 2}],
        }
        config = LanguageConfig.model_validate(settings | changes)
        known = corpus(tiny_latency.runs(), tiny_latency.graphs(), config)
        return Stages(config, folder, known, silent)

    return made
