"""A scheduler's own table in the site file: what is wrong with it is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.pilot.errors import DocumentError
from berth.plugin.site import load_site


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[slurm]\nread_with = "magic"\n', "slurm.read_with: is not a known key"),
        ("slurm = 3\n", "slurm: holds a int where"),
        ('[slurm]\n[site]\nscheduler = "flux"\n', "slurm: is not for this site"),
        ('[site]\nscheduler = "slum"\n', "there is no scheduler 'slum'; did you mean 'slurm'"),
        ("[slum]\n", "slum: is not a known key"),
    ],
)
def test_a_wrong_table_is_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "berth.toml"
    path.write_text('schema = "berth.site/1"\n' + text)
    with pytest.raises(DocumentError) as refused:
        load_site(path)
    assert problem in refused.value.message
