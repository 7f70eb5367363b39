"""Users' model files are hostile: read by a child without rights, within bounds, one sentence."""

from __future__ import annotations

import gzip
import json
import os
import signal
import struct
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from small_models import attention, constant, convolutional, integers, model, tensor

from berth.pilot import protobuf
from berth.pilot.errors import BerthError, DocumentError
from berth.predictor.graphs.limits import FileLimits
from berth.predictor.graphs.reader import ModelReader


@pytest.fixture(scope="module")
def reader():
    with ModelReader() as found:
        yield found


def written(folder: Path, made: onnx.ModelProto | bytes, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
    return path


def refusal(reader: ModelReader, path: Path, **more) -> str:
    with pytest.raises(DocumentError) as error:
        reader.read(path, **more)
    assert error.value.message.startswith(f"{path}: ")
    assert "\n" not in error.value.message
    assert error.value.exit_status == 2
    return error.value.message.removeprefix(f"{path}: ")


def resident_bytes(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def test_a_file_is_read_through_the_child(reader: ModelReader, tmp_path: Path) -> None:
    graph = reader.read(written(tmp_path, convolutional()), batch=4)
    assert (graph.batch, len(graph)) == (4, 12)
    assert reader.child is not None


def test_the_child_stays_warm_and_keeps_nothing_open(reader: ModelReader, tmp_path: Path) -> None:
    path = written(tmp_path, convolutional())
    reader.read(path)
    child = reader.child
    for _ in range(20):
        reader.read(path)
    assert reader.child == child
    assert len(list(Path(f"/proc/{child}/fd").iterdir())) <= 4


@pytest.mark.skipif(os.getuid() != 0, reason="only root can drop its rights")
def test_the_child_gives_up_roots_rights(reader: ModelReader, tmp_path: Path) -> None:
    reader.read(written(tmp_path, convolutional()))
    status = dict(
        line.split(":\t", 1)
        for line in Path(f"/proc/{reader.child}/status").read_text().splitlines()
        if ":\t" in line
    )
    assert status["Uid"].split() == ["65534"] * 4
    assert status["Gid"].split() == ["65534"] * 4
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) == 0


def test_the_child_is_bounded(reader: ModelReader, tmp_path: Path) -> None:
    reader.read(written(tmp_path, convolutional()))
    rows = Path(f"/proc/{reader.child}/limits").read_text().splitlines()
    limits = {row[:26].strip(): row[26:].split()[0] for row in rows}
    assert int(limits["Max address space"]) == FileLimits().memory_bytes
    assert limits["Max file size"] == "0"
    assert limits["Max processes"] == "0"
    assert int(limits["Max open files"]) <= 16


def test_the_child_imports_neither_numpy_nor_onnxruntime(
    reader: ModelReader, tmp_path: Path
) -> None:
    reader.read(written(tmp_path, convolutional()))
    mapped = Path(f"/proc/{reader.child}/maps").read_text()
    assert "numpy" not in mapped
    assert "onnxruntime" not in mapped


def test_a_file_that_only_its_owner_may_read_is_read(reader: ModelReader, tmp_path: Path) -> None:
    path = written(tmp_path, convolutional())
    path.chmod(0o600)
    tmp_path.chmod(0o700)
    assert len(reader.read(path)) == 12


def test_a_child_that_dies_is_replaced(tmp_path: Path) -> None:
    path = written(tmp_path, convolutional())
    with ModelReader() as reader:
        reader.read(path)
        first = reader.child
        os.kill(first, signal.SIGKILL)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        assert len(reader.read(path)) == 12
        assert reader.child != first


def test_a_child_that_hangs_costs_one_sentence_and_is_replaced(tmp_path: Path) -> None:
    path = written(tmp_path, convolutional())
    with ModelReader(FileLimits(wait_s=0.1)) as hurried:
        hurried._start()
        os.kill(hurried.child, signal.SIGSTOP)
        assert "could not be read within" in refusal(hurried, path)
        assert hurried.child is None


def of_empty_names(count: int) -> bytes:
    """A node of so many inputs: two bytes each in the file, some hundred in memory."""
    many = b"\x0a\x00" * count
    node = b"\x0a" + protobuf.encode_varint(len(many)) + many
    return b"\x08\x09\x42\x02\x10\x14\x3a" + protobuf.encode_varint(len(node)) + node


def test_a_child_that_needs_too_much_memory_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, of_empty_names(800_000))
    with ModelReader(FileLimits(memory_bytes=80 * 2**20)) as small:
        assert "memory" in refusal(small, path)
        assert len(small.read(written(tmp_path, convolutional()))) == 12


def test_too_many_parts_are_refused(reader: ModelReader, tmp_path: Path) -> None:
    path = written(tmp_path, of_empty_names(2_000_000))
    assert "is made of more than 1000000 parts" in refusal(reader, path)


def test_external_data_is_never_opened(reader: ModelReader, tmp_path: Path) -> None:
    made = convolutional()
    for weight in made.graph.initializer:
        weight.ClearField("raw_data")
        weight.data_location = onnx.TensorProto.EXTERNAL
        entry = weight.external_data.add()
        entry.key, entry.value = "location", "../../../../etc/shadow"
    graph = reader.read(written(tmp_path, made))
    assert graph.digest == reader.read(written(tmp_path, convolutional())).digest


def test_gigabytes_that_are_only_declared_are_not_made(reader: ModelReader, tmp_path: Path) -> None:
    made = model([helper.make_node("MatMul", ["x", "w"], ["y"])], inputs=[tensor("x", "N", 2**17)])
    weight = made.graph.initializer.add()
    weight.name, weight.data_type = "w", 1
    weight.dims.extend([2**17, 2**17])
    graph = reader.read(written(tmp_path, made))
    assert graph.stored_bytes == 2**36
    assert resident_bytes(reader.child, "VmHWM") < 64 * 2**20


def test_weights_inside_a_large_file_are_skipped_unread(
    reader: ModelReader, tmp_path: Path
) -> None:
    made = convolutional(blocks=2, channels=512)
    big = written(tmp_path, made, "big.onnx")
    assert big.stat().st_size > 16 * 2**20
    with ModelReader() as fresh:
        graph = fresh.read(big)
        fresh.read(written(tmp_path, convolutional()))
        assert resident_bytes(fresh.child, "VmHWM") < 32 * 2**20
    for weight in made.graph.initializer:
        weight.ClearField("raw_data")
    assert reader.read(written(tmp_path, made)).digest == graph.digest


def test_a_large_file_cut_short_is_named(reader: ModelReader, tmp_path: Path) -> None:
    data = convolutional(blocks=2, channels=512).SerializeToString()
    for share in (0.1, 0.5, 0.999):
        path = written(tmp_path, data[: int(len(data) * share)])
        assert "truncated" in refusal(reader, path)


def test_a_hole_declared_as_a_file_is_refused_by_its_size(
    reader: ModelReader, tmp_path: Path
) -> None:
    path = tmp_path / "hole.onnx"
    with path.open("wb") as stream:
        stream.truncate(2**40)
    assert "is larger than 2048 MiB" in refusal(reader, path)


def without_nodes(opset: int) -> bytes:
    graph = helper.make_graph([], "g", [], [])
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets).SerializeToString()


OTHERS = {
    "empty": (b"", "is empty"),
    "json": (b'{"a": 1}', "is JSON, not an ONNX model"),
    "gzip": (gzip.compress(b"x" * 100), "is gzip-compressed"),
    "pickle": (b"\x80\x04\x95\x00", "is a Python pickle"),
    "hdf5": (b"\x89HDF\r\n", "is an HDF5 file"),
    "text": (b"# a model\n" * 10, "is not an ONNX model"),
    "random": (np.random.default_rng(0).bytes(4096), "is not an ONNX model"),
    "zeros": (bytes(4096), "no graph"),
    "endless number": (b"\x08" + b"\xff" * 20, "endless number"),
    "no graph": (b"\x08\x09", "holds no graph"),
    "no opset": (without_nodes(opset=0), "uses no operator set; 13 and newer"),
    "no nodes": (without_nodes(opset=20), "holds no nodes"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_not_a_model_is_named(reader: ModelReader, tmp_path: Path, kind: str) -> None:
    data, sentence = OTHERS[kind]
    assert sentence in refusal(reader, written(tmp_path, data))


def test_a_zip_bomb_stays_packed(reader: ModelReader, tmp_path: Path) -> None:
    path = tmp_path / "bomb.onnx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.onnx", bytes(50 * 2**20))
    assert "is a zip archive" in refusal(reader, path)
    assert resident_bytes(reader.child, "VmRSS") < 64 * 2**20


@pytest.mark.parametrize(
    ("path", "sentence"),
    [("absent.onnx", "does not exist"), (".", "is not a regular file"), ("\0", "cannot be read")],
)
def test_what_is_not_a_file_is_named(
    reader: ModelReader, tmp_path: Path, path: str, sentence: str
) -> None:
    assert sentence in refusal(reader, tmp_path / path)


def test_a_pipe_is_refused_without_waiting(reader: ModelReader, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is not a regular file" in refusal(reader, tmp_path / "pipe")


@pytest.mark.parametrize("batch", [0, -1, 2**40])
def test_a_senseless_batch_is_refused(reader: ModelReader, tmp_path: Path, batch: int) -> None:
    assert f"batch {batch}" in refusal(reader, written(tmp_path, convolutional()), batch=batch)


def test_a_senseless_dimension_is_refused(reader: ModelReader, tmp_path: Path) -> None:
    path = written(tmp_path, attention())
    assert "dimension sequence is 0" in refusal(reader, path, sizes={"sequence": 0})


def cyclic() -> onnx.ModelProto:
    made = convolutional()
    made.graph.node[0].input[0] = "b2"
    return made


def deep_functions(depth: int) -> onnx.ModelProto:
    made = model([helper.make_node("F0", ["x"], ["y"], domain="f")])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]
    for n in range(depth):
        inner = "Relu" if n == depth - 1 else f"F{n + 1}"
        body = [
            helper.make_node(inner, ["a"], [f"b{k}"], domain="" if inner == "Relu" else "f")
            for k in range(100)
        ]
        made.functions.append(helper.make_function("f", f"F{n}", ["a"], ["b0"], body, opsets))
    return made


def control_flow() -> onnx.ModelProto:
    branch = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "b", [], [tensor("y")])
    node = helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch)
    flag = helper.make_tensor_value_info("c", 9, [])
    return model([node], inputs=[tensor("x", 1), flag])


def sized(name: str, *values: int) -> onnx.ModelProto:
    nodes = [helper.make_node("Expand", ["x", "s"], ["h"]), helper.make_node(name, ["h"], ["y"])]
    return model(nodes, [integers("s", *values)], [tensor("x", 1, 1)])


def negative() -> onnx.ModelProto:
    made = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [constant("w", 8, 1)])
    made.graph.initializer[0].dims[0] = -8
    return made


def single(name: str, given: str) -> onnx.ModelProto:
    return model([helper.make_node(name, [given], ["y"])], [constant("w", 2)])


REFUSED = {
    "cycle": (cyclic(), "is cyclic"),
    "control flow": (control_flow(), r"node 0 (If) is control flow"),
    "missing": (single("Relu", "nowhere"), "which nothing makes"),
    "data-dependent": (single("NonZero", "x"), "depends on the data"),
    "too large": (sized("Relu", 2**30, 2**30), "more than 2.8e+14 elements"),
    "negative": (negative(), "a negative dimension (-8)"),
    "functions": (deep_functions(4), "has more than 50000 nodes with its functions in place"),
    "deep functions": (deep_functions(12), "deeper than 8"),
    "constants only": (single("Relu", "w"), "computes nothing from its inputs"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_model_that_cannot_be_known_is_named(
    reader: ModelReader, tmp_path: Path, kind: str
) -> None:
    made, sentence = REFUSED[kind]
    assert sentence in refusal(reader, written(tmp_path, made))


def test_too_many_nodes_are_refused(tmp_path: Path) -> None:
    with ModelReader(FileLimits(nodes=10)) as strict:
        assert "has more than 10 nodes" in refusal(strict, written(tmp_path, convolutional()))


def test_unknown_operators_are_counted_and_take_their_shape_from_the_file(
    reader: ModelReader, tmp_path: Path
) -> None:
    nodes = [
        helper.make_node("Fold", ["x"], ["a"], domain="theirs"),
        helper.make_node("Fold", ["a"], ["b"], domain="theirs"),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    made = model(nodes)
    made.graph.value_info.append(tensor("a", "N", 12))
    graph = reader.read(written(tmp_path, made), batch=5)
    assert dict(graph.unknown) == {"theirs:Fold": 2}
    assert graph.assumed_shapes == 1
    assert graph.outputs[0].shape == (5, 12)
    assert graph.total_flops == 5 * 12


def test_a_reply_that_is_no_graph_costs_one_sentence(tmp_path: Path, monkeypatch) -> None:
    replies = [b"g" + struct.pack("<q", 3) + b"abc", b"?" + bytes(8), b"g" + b"\xff" * 8]
    path = written(tmp_path, convolutional())
    for reply in replies:
        program = (
            "import socket, sys; s = socket.socket(fileno=0); s.sendall(b'r'); "
            "socket.recv_fds(s, 65536, 1); "
            f"s.sendall({reply!r}); s.recv(1)"
        )
        monkeypatch.setattr("berth.predictor.graphs.reader._PROGRAM", program)
        with ModelReader() as lying:
            refusal(lying, path)


def test_names_cannot_steer_a_terminal(reader: ModelReader, tmp_path: Path) -> None:
    made = model([helper.make_node("\x1b[2J\nRm", ["x"], ["\x1b]0;y\a"])])
    graph = reader.read(written(tmp_path, made))
    names = [*graph.operators, *graph.unknown, *(p.name for p in graph.outputs)]
    assert all(name.isprintable() for name in names)
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "\x1b[2J"
    with pytest.raises(DocumentError) as error:
        reader.read(written(tmp_path, made))
    assert f"{error.value.message}{error.value.hint}".isprintable()


def test_names_in_messages_are_short_and_plain(reader: ModelReader, tmp_path: Path) -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], inputs=[tensor("x" * 5000, "N", "m")])
    said = refusal(reader, written(tmp_path, made))
    assert len(said) < 300
    assert json.dumps(said)


def test_a_child_that_cannot_start_is_told_from_a_bad_file(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("berth.predictor.graphs.reader._PROGRAM", "raise SystemExit(1)")
    with (
        ModelReader() as broken,
        pytest.raises(BerthError, match="process that reads model files could not start"),
    ):
        broken.read(written(tmp_path, convolutional()))


def test_a_forked_process_gets_a_child_of_its_own(tmp_path: Path) -> None:
    path = written(tmp_path, convolutional())
    with ModelReader() as reader:
        reader.read(path)
        first = reader.child
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                reader.read(path, batch=3)
                status = 0 if reader.child != first else 2
                reader.close()
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert reader.read(path, batch=5).batch == 5
        assert reader.child == first


def of_opset(opset: int) -> onnx.ModelProto:
    """A network whose operators changed with the operator sets, as exporters of the time wrote."""
    channels, classes = 4, 10
    norm = [constant(name, channels) for name in ("scale", "shift", "mean", "var")]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("Dropout", ["r"], ["d"], **({"ratio": 0.5} if opset < 12 else {})),
        helper.make_node("Unsqueeze", ["d"], ["u"], axes=[0]),
        helper.make_node("Squeeze", ["u"], ["s"], axes=[0]),
        helper.make_node("ReduceMean", ["s"], ["m"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["m", "out"], ["l"]),
        helper.make_node("Softmax", ["l"], ["y"], axis=1),
    ]
    inputs = [tensor("x", "batch", 3, 16, 16)]
    constants = [constant("w", channels, 3, 3, 3), *norm, constant("out", channels, classes)]
    made = model(nodes, constants, inputs, opset=opset)
    made.ir_version = 3 if opset < 9 else 6
    return made


@pytest.mark.parametrize("opset", [7, 8, 9, 10, 11, 12])
def test_older_operator_sets_are_converted_in_a_child(
    reader: ModelReader, tmp_path: Path, opset: int
) -> None:
    graph = reader.read(written(tmp_path, of_opset(opset)), batch=2)
    assert (graph.opset, graph.batch, graph.unknown) == (opset, 2, {})
    assert graph.parameters == 4 * 3 * 9 + 2 * 4 + 40
    assert reader.read(written(tmp_path, convolutional())).opset == 20


def test_large_weights_are_not_read_for_a_conversion(reader: ModelReader, tmp_path: Path) -> None:
    made = of_opset(11)
    made.graph.initializer.append(constant("large", 1024, 1024))
    made.graph.node.insert(8, helper.make_node("MatMul", ["wide", "large"], ["unused"]))
    made.graph.node.insert(8, helper.make_node("Concat", ["l"] * 1 + ["pad"], ["wide"], axis=1))
    made.graph.initializer.append(constant("pad", 2, 1014))
    assert reader.read(written(tmp_path, made), batch=2).parameters > 1024 * 1024


def test_what_the_converter_cannot_do_is_one_sentence(reader: ModelReader, tmp_path: Path) -> None:
    made = of_opset(9)
    made.graph.node[0].input[1] = "nowhere"
    assert "was not converted" in refusal(reader, written(tmp_path, made))


def test_without_the_library_the_way_out_is_said(
    reader: ModelReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.predictor.graphs.reader.find_spec", lambda _: None)
    with pytest.raises(DocumentError, match="uses opset 11; 13 and newer") as error:
        reader.read(written(tmp_path, of_opset(11)))
    assert "pip install onnx" in (error.value.hint or "")
