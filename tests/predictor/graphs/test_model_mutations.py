"""A sample of `make fuzz-models`: broken models are read or refused, within bounds."""

from __future__ import annotations

from pathlib import Path

from model_mutations import Tally, broken, read, read_by_child, seeds

from berth.predictor.graphs.reader import ModelReader

COUNT, BY_CHILD = 2000, 60


def test_sound_models_are_read() -> None:
    tally = Tally()
    for n, data in enumerate(seeds()):
        read(data, n + 1, tally, str(n))
    assert tally.graphs == len(seeds())


def test_broken_models_are_read_or_refused_in_a_sentence() -> None:
    tally, sound = Tally(), seeds()
    for seed in range(COUNT):
        read(broken(sound, seed), 1 + seed % 8, tally, f"seed {seed}")
    assert not tally.failed
    assert tally.graphs > COUNT / 10
    assert len(tally.refused) > 30


def test_the_child_survives_them_within_its_memory(tmp_path: Path) -> None:
    tally, sound = Tally(), seeds()
    with ModelReader() as reader:
        for seed in range(BY_CHILD):
            read_by_child(broken(sound, seed), reader, tmp_path, tally, f"seed {seed}")
        status = Path(f"/proc/{reader.child}/status").read_text().splitlines()
    assert not tally.failed
    held = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    assert held < 128 * 1024
