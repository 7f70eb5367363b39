"""Doors from frameworks: the real ones where installed, stand-ins for what they do otherwise."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from pathlib import Path

import pytest
from small_models import convolutional

from berth.pilot.errors import DocumentError, ToolMissing, UsageError
from berth.predictor.graphs.front_ends import huggingface
from berth.predictor.graphs.front_ends.any_model import graph_of
from berth.predictor.graphs.front_ends.huggingface import read_config


def names(graph) -> list[str]:
    return [graph.operators[n] for n in graph.operator]


@pytest.fixture(scope="module")
def torch():
    pytest.importorskip("onnxscript")
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def network(torch):
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
    )  # fmt: skip


def test_a_torch_module_is_read_at_the_batch_asked_for(torch, network) -> None:
    network.train()
    graph = graph_of(network, batch=4, inputs=(torch.zeros(2, 3, 16, 16),))
    assert network.training
    assert graph.batch == 4
    assert names(graph) == ["Conv", "Relu", "ReduceMean", "Reshape", "Gemm"]
    assert graph.parameters == sum(p.numel() for p in network.parameters())
    assert graph.total_macs == 4 * (16 * 16 * 8 * 27 + 80)


def test_a_torch_module_without_weights_is_read(torch) -> None:
    with torch.device("meta"):
        module = torch.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
        inputs = torch.zeros(1, 10, 64)
    graph = graph_of(module, batch=3, inputs=inputs)
    assert graph.parameters == sum(p.numel() for p in module.parameters())
    assert graph.total_macs == 30 * (4 * 64 * 64 + 2 * 64 * 256) + 3 * 2 * 10 * 10 * 64
    assert not graph.unknown


def test_a_torch_module_that_cannot_be_traced_costs_a_sentence(torch) -> None:
    class Branches(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else x * 2

    with pytest.raises(DocumentError, match=r"Branches: could not be exported by torch\.onnx: ."):
        graph_of(Branches(), inputs=(torch.zeros(2, 3),))
    with pytest.raises(UsageError, match="needs example inputs"):
        graph_of(Branches())


CONFIGS = {
    "bert": {"num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 4,
             "intermediate_size": 128, "vocab_size": 100},
    "vit": {"num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 4,
            "intermediate_size": 128, "image_size": 32},
}  # fmt: skip


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_configuration_is_read_without_weights(torch, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("transformers")
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": kind, **CONFIGS[kind]}))
    graph = graph_of(path if kind == "bert" else tmp_path, batch=2)
    assert graph.batch == 2
    assert graph.count("MatMul") + graph.count("Gemm") >= 6
    assert not graph.unknown
    with pytest.raises(UsageError, match="no dimension 'colour'"):
        graph_of(path, sizes={"colour": 3})


ENCODERS = {
    "BertForMaskedLM": ("bert", CONFIGS["bert"] | {"num_hidden_layers": 2}),
    "BertLMHeadModel": ("bert", CONFIGS["bert"]),
    "RobertaModel": ("roberta", CONFIGS["bert"]),
    "RobertaForCausalLM": ("roberta", CONFIGS["bert"]),
    "ElectraForPreTraining": ("electra", CONFIGS["bert"] | {"embedding_size": 32}),
    "DistilBertForTokenClassification": (
        "distilbert",
        {"n_layers": 2, "dim": 64, "n_heads": 4, "hidden_dim": 128, "vocab_size": 100},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("named", ENCODERS)
def test_an_encoder_is_written_as_transformers_builds_it(
    torch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    pytest.importorskip("transformers")
    kind, sizes = ENCODERS[named]
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": kind, "architectures": [named], **sizes}))
    written = graph_of(path, batch=2, sizes={"sequence": 16})
    monkeypatch.setattr(huggingface, "encoder", lambda *_: None)
    built = graph_of(path, batch=2, sizes={"sequence": 16})
    assert written.total_macs == built.total_macs
    assert abs(written.parameters / built.parameters - 1) < 0.05
    for operator in ("LayerNormalization", "Softmax"):
        assert written.count(operator) == built.count(operator)


@pytest.mark.parametrize(
    ("changes", "sizes", "sentence"),
    [
        ({}, {"sequence": 513}, "reads at most 512 tokens, not 513"),
        ({"num_attention_heads": 5}, {}, "hidden_size: is no multiple of 5 heads"),
        ({"hidden_size": 64.5}, {}, r"hidden_size: is 64\.5, not a size"),
        ({"model_type": "clip", "text_config": {}, "vision_config": {}}, {},
         "is of an encoder, 'clip', which reads texts and pictures at once; it serves no tokens"),
    ],
)  # fmt: skip
def test_an_encoder_that_cannot_be_is_refused(
    tmp_path: Path, changes: dict[str, object], sizes: dict[str, int], sentence: str
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "bert", **CONFIGS["bert"], **changes}))
    with pytest.raises(DocumentError, match=sentence) as error:
        graph_of(path, sizes=sizes)
    if "clip" in sentence:
        assert "optimum-cli export onnx" in (error.value.hint or "")


def test_an_unknown_model_type_is_named(torch, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "nonsense"}')
    with pytest.raises(DocumentError, match="'nonsense', which transformers does not know"):
        graph_of(path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is not JSON"),
        ("[1]", "names no model_type"),
        ('{"hidden_size": 4}', "names no model_type"),
        ('{"model_type": "bert", "num_hidden_layers": 100000000}', "num_hidden_layers: is beyond"),
        ('{"model_type": "bert", "vocab_size": 1e12}', "vocab_size: is beyond"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_a_configuration_beyond_reason_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(DocumentError, match=sentence):
        read_config(path)
    with pytest.raises(DocumentError, match="cannot be read"):
        read_config(tmp_path / "absent.json")


class Spec:
    def __init__(self, **given) -> None:
        self.__dict__.update(given)


class KerasModel:
    """Stands in for a Keras model: writes a real ONNX file where Keras would."""

    name = "mine"
    inputs = (Spec(shape=(None, 3, 8, 8), dtype="float32", name="x"),)
    error: Exception | None = None

    def export(self, path: str, *, format: str, verbose: bool, input_signature: list) -> None:  # noqa: A002
        if self.error is not None:
            raise self.error
        assert (format, verbose, input_signature[0].shape) == ("onnx", False, (None, 3, 8, 8))
        Path(path).write_bytes(convolutional().SerializeToString())


@pytest.fixture
def keras(monkeypatch):
    module = types.ModuleType("keras")
    module.InputSpec = Spec
    monkeypatch.setitem(sys.modules, "keras", module)
    monkeypatch.setattr(KerasModel, "__module__", "keras.src.models")
    return KerasModel()


def test_a_keras_model_goes_by_its_own_export(keras) -> None:
    graph = graph_of(keras, batch=3)
    assert (graph.batch, graph.count("Conv")) == (3, 3)


def test_a_keras_model_that_fails_costs_a_sentence(keras, monkeypatch) -> None:
    monkeypatch.setattr(KerasModel, "error", ValueError("layer Lambda is not\nsupported"))
    with pytest.raises(DocumentError, match=r"exported by Keras: layer Lambda is not$"):
        graph_of(keras)
    monkeypatch.setattr(KerasModel, "error", ModuleNotFoundError("no", name="tf2onnx"))
    with pytest.raises(ToolMissing, match="tf2onnx is not available"):
        graph_of(keras)
    monkeypatch.setattr(KerasModel, "inputs", ())
    with pytest.raises(UsageError, match="was never built"):
        graph_of(keras)


@pytest.mark.parametrize("name", ["m.pt", "m.keras", "m.h5", "m.pdmodel", "m.safetensors"])
def test_files_that_may_run_code_are_not_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(DocumentError, match="holds "):
        graph_of(tmp_path / name)


def test_an_onnx_path_goes_to_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(convolutional().SerializeToString())
    assert graph_of(str(path), batch=2).batch == 2
    with pytest.raises(DocumentError, match="does not exist"):
        graph_of(tmp_path / "absent.onnx")


def test_what_is_no_model_is_named() -> None:
    with pytest.raises(UsageError, match="a dict is no model"):
        graph_of({})


def test_front_ends_import_no_framework_by_themselves() -> None:
    program = (
        "import importlib, sys\n"
        "for name in ('any_model', 'torch_module', 'keras_model', 'huggingface'):\n"
        "    importlib.import_module(f'berth.predictor.graphs.front_ends.{name}')\n"
        "heavy = ('torch', 'keras', 'transformers', 'onnx')\n"
        "print(*[m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == [], done.stderr
