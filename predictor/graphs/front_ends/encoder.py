"""Write an encoder of the BERT kind as an ONNX file without weights, from its ``config.json``.

Devlin et al. 2019 (BERT), Liu et al. 2019 (RoBERTa), Sanh et al. 2019 (DistilBERT), Clark et al.
2020 (ELECTRA). No framework is needed: importing one and exporting the model takes 20 s. Other
encoders, and settings that change the graph, are left to ``huggingface``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth.pilot.errors import DocumentError
from berth.predictor.graphs.front_ends.onnx_writing import FLOAT, INT64, model, node, tensor
from berth.predictor.graphs.front_ends.transformer import attention

_BERT = {
    "width": ("hidden_size", 768), "layers": ("num_hidden_layers", 12),
    "heads": ("num_attention_heads", 12), "inner": ("intermediate_size", 3072),
    "vocabulary": ("vocab_size", 30_522), "positions": ("max_position_embeddings", 512),
    "segments": ("type_vocab_size", 2),
}  # fmt: skip
_ELECTRA = {
    **_BERT, "width": ("hidden_size", 256), "heads": ("num_attention_heads", 4),
    "inner": ("intermediate_size", 1024), "embedded": ("embedding_size", 128),
}  # fmt: skip
_DISTILBERT = {
    **_BERT, "width": ("dim", 768), "layers": ("n_layers", 6), "heads": ("n_heads", 12),
    "inner": ("hidden_dim", 3072), "segments": ("type_vocab_size", 0),
}  # fmt: skip
_KEYS = {
    "bert": _BERT, "roberta": _BERT, "camembert": _BERT, "xlm-roberta": _BERT,
    "electra": _ELECTRA, "distilbert": _DISTILBERT,
}  # fmt: skip
"""For each family, the key and the default (transformers' own) of each size."""
_AS_WRITTEN = {
    "is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute",
    "chunk_size_feed_forward": 0, "hidden_act": "gelu", "activation": "gelu",
}  # fmt: skip
"""Settings that change the graph, with the value for which it is written here."""
_SCORES_WORDS = re.compile(r"(For(MaskedLM|PreTraining|CausalLM)|LMHeadModel)$")
_SCORES_TOKENS = re.compile(r"For(TokenClassification|QuestionAnswering)$")


def encoder(path: Path, settings: Mapping[str, Any], sequence: int) -> bytes | None:
    """Return the encoder of a configuration as the bytes of an ONNX file without weights.

    Its input is ``input_ids`` [batch, sequence]. None where this module does not know the graph.
    Raises DocumentError for sizes that cannot be.
    """
    keys = _KEYS.get(str(settings.get("model_type")))
    if keys is None or any(settings.get(k, usual) != usual for k, usual in _AS_WRITTEN.items()):
        return None
    sizes = {name: settings.get(key, default) for name, (key, default) in keys.items()}
    for name, size in sizes.items():
        least = 0 if name == "segments" else 1
        if not isinstance(size, int) or isinstance(size, bool) or size < least:
            raise DocumentError(path, f"is {size!r}, not a size", key=keys[name][0])
    if sizes["width"] % sizes["heads"]:
        raise DocumentError(path, f"is no multiple of {sizes['heads']} heads", key=keys["width"][0])
    if sequence > sizes["positions"]:
        problem = f"is of a model that reads at most {sizes['positions']} tokens, not {sequence}"
        raise DocumentError(path, problem, hint=f"--dim sequence={sizes['positions']}")
    writer = _Writer(sizes, sequence)
    classes = settings.get("architectures") or ("",)
    labels = len(settings.get("id2label") or (0, 1))
    output = writer.head(writer.layers(), str(classes[0]), str(settings["model_type"]), labels)
    return model(
        writer.nodes,
        writer.constants,
        [("input_ids", INT64, ("batch", sequence))],
        (output, FLOAT, ("batch",)),
    )


class _Writer:
    """Collects the nodes and constants of one encoder. Each method returns its output's name."""

    def __init__(self, sizes: Mapping[str, int], sequence: int) -> None:
        self.sizes, self.width, self.sequence = sizes, sizes["width"], sequence
        self.embedded = sizes.get("embedded", self.width)
        each = self.width // sizes["heads"]
        self.nodes: list[bytes] = []
        self.constants = [
            tensor("split", (4,), (0, 0, sizes["heads"], each)), tensor("scale", ()),
            tensor("join", (3,), (0, 0, self.width)), tensor("first", (), (0,)),
            tensor("order", (1, sequence), range(sequence)),
            tensor("zeros", (1, sequence), [0] * sequence),
        ]  # fmt: skip

    def layers(self) -> str:
        hidden = self._embedding("words", self.sizes["vocabulary"], "input_ids")
        if self.sizes["segments"]:
            segments = self._embedding("segments", self.sizes["segments"], "zeros")
            hidden = self._add("Add", [hidden, segments], "e.both")
        positions = self._embedding("positions", self.sizes["positions"], "order")
        hidden = self._normed(self._add("Add", [hidden, positions], "e.sum"), "e", self.embedded)
        if self.embedded != self.width:
            hidden = self._linear(hidden, "e.projected", self.embedded, self.width)
        for n in range(self.sizes["layers"]):
            hidden = self._layer(n, hidden)
        return hidden

    def head(self, hidden: str, class_name: str, family: str, labels: int) -> str:
        width = self.width
        if family == "electra" and class_name.endswith("ForPreTraining"):
            dense = self._add("Gelu", [self._linear(hidden, "dense", width, width)], "gelu")
            return self._linear(dense, "logits", width, 1)
        if _SCORES_WORDS.search(class_name):
            dense = self._linear(hidden, "dense", width, self.embedded)
            dense = self._normed(self._add("Gelu", [dense], "gelu"), "normed", self.embedded)
            self.constants.append(tensor("bias", (self.sizes["vocabulary"],)))
            by_word = self._add("Transpose", ["words"], "words.t", perm=(1, 0))
            return self._add("Add", [self._add("MatMul", [dense, by_word], "mm"), "bias"], "logits")
        if _SCORES_TOKENS.search(class_name):
            return self._linear(hidden, "logits", width, labels)
        if "For" not in class_name and family in ("electra", "distilbert"):
            return hidden
        first = self._add("Gather", [hidden, "first"], "cls", axis=1)
        pooled = self._add("Tanh", [self._linear(first, "dense", width, width)], "pooled")
        return self._linear(pooled, "logits", width, labels) if "For" in class_name else pooled

    def _layer(self, n: int, hidden: str) -> str:
        width, inner = self.width, self.sizes["inner"]
        for kind in "qkv":
            self._linear(hidden, f"{kind}m{n}", width, width)
        self.nodes += attention(n)
        joined = self._linear(f"ar{n}", f"o{n}", width, width)
        middle = self._normed(self._add("Add", [joined, hidden], f"x{n}"), f"y{n}", width)
        up = self._add("Gelu", [self._linear(middle, f"u{n}", width, inner)], f"v{n}")
        down = self._linear(up, f"d{n}", inner, width)
        return self._normed(self._add("Add", [down, middle], f"z{n}"), f"h{n}", width)

    def _add(
        self, operator: str, inputs: list[str], output: str, **attributes: int | tuple[int, ...]
    ) -> str:
        self.nodes.append(node(operator, inputs, [output], **attributes))
        return output

    def _embedding(self, table: str, rows: int, indices: str) -> str:
        self.constants.append(tensor(table, (rows, self.embedded)))
        return self._add("Gather", [table, indices], f"e.{table}")

    def _linear(self, source: str, output: str, inner: int, outer: int) -> str:
        self.constants += [tensor(f"{output}.w", (inner, outer)), tensor(f"{output}.b", (outer,))]
        product = self._add("MatMul", [source, f"{output}.w"], f"{output}.mm")
        return self._add("Add", [product, f"{output}.b"], output)

    def _normed(self, source: str, output: str, width: int) -> str:
        self.constants += [tensor(f"{output}.g", (width,)), tensor(f"{output}.b", (width,))]
        return self._add("LayerNormalization", [source, f"{output}.g", f"{output}.b"], output)
