"""``berth site support``: what is in it, and what is not."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from berth_daemon import PARTITIONS, Harbour, fake_slurm, forecast, harbour
from click.testing import CliRunner
from made_forecasts import put
from ui_store import decision

from berth.plugin.cli.site.doctor import support_bundle
from berth.plugin.doctor.support import Pseudonyms, gather, without_passwords
from berth.plugin.site.load import load_site
from berth.plugin.store import PlacedRun, WorkloadRecord

FILES = {
    "about.json", "doctor.json", "berth.toml", "scheduler.json", "daemon.json", "store.json",
    "decisions.json", "outcomes.json", "log.txt",
}  # fmt: skip


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Harbour]:
    with harbour() as made:
        fake_slurm(made.folder / "bin")
        monkeypatch.setenv("PATH", f"{made.folder / 'bin'}:{os.environ['PATH']}")
        yield made


def read(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as opened:
        names = [n for n in opened.getnames() if not opened.getmember(n).isdir()]
        return {Path(n).name: opened.extractfile(n).read().decode() for n in names}


def test_one_file_for_its_owner_without_names(site: Harbour, tmp_path: Path) -> None:
    store = site.store()
    put(store, forecast("stream"))
    people = ("zoe", "yannick")
    store.decisions.add(
        [decision(n, user=who, account="physics-1") for n, who in enumerate(people)]
    )
    target = tmp_path / "support.tar.gz"
    done = CliRunner().invoke(support_bundle, ["--site", str(site.site_file), "-o", str(target)])
    assert done.exit_code == 0, done.output
    assert "read it before you send it" in done.output
    assert target.stat().st_mode & 0o777 == 0o600
    texts = read(target)
    assert set(texts) == FILES
    together = "\n".join(texts.values())
    assert not any(name in together for name in (*people, "physics-1"))
    rows = json.loads(texts["decisions.json"])
    assert {row["user"] for row in rows} <= {f"user-{n}" for n in range(1, 100)}
    assert len({row["user"] for row in rows}) == 2
    assert "request" not in rows[0]
    assert json.loads(texts["store.json"])["decisions"] == 2
    assert json.loads(texts["scheduler.json"])["version"].startswith("slurm 22.05")
    assert "could not be read" in texts["daemon.json"]  # it does not run
    again = CliRunner().invoke(support_bundle, ["--site", str(site.site_file), "-o", str(target)])
    assert again.exit_code != 0
    assert read(target) == texts


PEOPLE = {
    "zoelle": "decided a job", "yann": "owns a workload", "xenia": "is an admin",
    "walther": "is covered", "vincenz": "is not covered", "ulrike": "may use a place",
    "timotheus": "has memory requests made smaller", "svenja": "stands in the log only",
    "quentin": "had a job that ended",
}  # fmt: skip
ACCOUNTS = ("physics-1", "chem-lab", "geo-lab", "hist-lab")


def a_site_with_names_everywhere(site: Harbour) -> None:
    """Each of PEOPLE and ACCOUNTS where an installation has such names."""
    store = site.store()
    made = forecast("yann/melt")
    store.add(WorkloadRecord("yann/melt", made.kind, made.digest, "{}", "yann", 0.0))
    store.decisions.add(
        [
            decision(1, user="zoelle", account="physics-1", workload="yann/melt"),
            decision(2, user="quentin"),
        ]
    )
    store.outcomes.put([PlacedRun("demo", "77", "quentin", "completed", decision=decision(2).id)])
    text = site.site_file.read_text()
    text = text.replace("[daemon]", '[daemon]\nadmins = ["xenia"]')
    text = text.replace("[coverage]", """\
[right_sizing]
users = ["timotheus"]
[coverage.users]
include = ["walther"]
exclude = ["vincenz"]
[coverage.accounts]
exclude = ["chem-lab"]
[coverage]""")  # fmt: skip
    text = text.replace('name = "gpu"', 'name = "gpu"\nusers = ["ulrike"]\naccounts = ["geo-lab"]')
    site.site_file.write_text(text)
    texts = PARTITIONS.replace("AllowAccounts=ALL", "AllowAccounts=hist-lab", 1)
    fake_slurm(site.folder / "bin", partitions=texts)
    journalctl = site.folder / "bin/journalctl"
    journalctl.write_text(
        "#!/bin/sh\necho 'berth[7]: decision=x action=keep user=svenja workload=-'\n"
        "echo 'berth[7]: zoelle and svenja/melt'\n"
    )
    journalctl.chmod(0o755)


def test_no_member_has_a_name_unless_asked(site: Harbour, tmp_path: Path) -> None:
    a_site_with_names_everywhere(site)
    names = (*PEOPLE, *ACCOUNTS)
    texts = {}
    for words in ((), ("--with-names",)):
        target = tmp_path / f"support{len(words)}.tar.gz"
        options = ["--site", str(site.site_file), "-o", str(target), *words]
        done = CliRunner().invoke(support_bundle, options)
        assert done.exit_code == 0, done.output
        texts[words] = read(target)
    named = {n for n in names if any(n in text for text in texts["--with-names",].values())}
    assert named == set(names)  # each was there to be hidden
    shown = [(n, member) for n in names for member, text in texts[()].items() if n in text]
    assert shown == []
    assert set(texts[()]) == FILES
    whole = {m for m, text in texts[()].items() if "could not be read" not in text}
    assert whole == FILES - {"daemon.json"}  # it does not run


def test_a_user_who_bears_the_name_of_a_key_does_not_garble_the_site_file(site: Harbour) -> None:
    site.store().decisions.add([decision(n, user=u) for n, u in enumerate(("mode", "daemon"))])
    text = gather(load_site(site.site_file))["berth.toml"]
    assert 'mode = "enforce"' in text
    assert "[daemon]" in text
    hidden = Pseudonyms(["mode", "alice"])
    assert hidden.text("user=mode mode=shadow alice=3") == "user=user-2 mode=shadow user-1=3"


def test_names_where_they_are_asked_for(site: Harbour) -> None:
    site.store().decisions.add([decision(1, user="zoe")])
    texts = gather(load_site(site.site_file), with_names=True)
    assert "zoe" in texts["decisions.json"]


def test_what_cannot_be_read_is_a_sentence(
    site: Harbour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    texts = gather(load_site(site.site_file))
    assert set(texts) == FILES
    for name in ("scheduler.json", "daemon.json", "store.json", "decisions.json", "log.txt"):
        assert texts[name].startswith("could not be read"), (name, texts[name])


def test_names_are_replaced_as_words_only() -> None:
    hide = Pseudonyms(["al", "alice", "root"], ["physics"])
    assert hide.text("al ran alice/melt for physics as root; also malice") == (
        "user-1 ran user-2/melt for account-3 as root; also malice"
    )
    data = {"alice": ["/home/alice/x", 3, None]}
    assert hide.data(data) == {"alice": ["/home/user-2/x", 3, None]}
    assert Pseudonyms([]).text("alice") == "alice"


def test_names_are_replaced_in_names_that_people_make_and_in_any_case() -> None:
    hide = Pseudonyms(["alice", "Bob", "o.brien", "mueller-x", "王"], ["phys"])
    assert hide.text(
        "alice_bert.onnx Alice-2 bert-ALICE bob o.brien Mueller-X/a 王_x PHYS_llm"
    ) == ("user-2_bert.onnx user-2-2 bert-user-2 user-1 user-4 user-3/a user-5_x account-6_llm")
    assert hide.text("alice2 malice philosophys") == "alice2 malice philosophys"
    assert Pseudonyms(["Al", "al"]).text("Al al AL").split()[:2] == ["user-1", "user-2"]


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("postgresql://berth:geheim@db/berth", "postgresql://berth:***@db/berth"),
        ("postgresql://berth:ge/he@im:x@db/b", "postgresql://berth:***@db/b"),
        ("postgresql://:geheim@db/b", "postgresql://:***@db/b"),
        ("postgresql://db/b?password=geheim&x=1", "postgresql://db/b?password=***&x=1"),
        ("sslpassword = 'geheim'", "sslpassword = '***'"),
        ("api_key: geheim", "api_key: ***"),
        ("sqlite:////var/lib/berth.db", "sqlite:////var/lib/berth.db"),
        ("http://127.0.0.1:9808/metrics", "http://127.0.0.1:9808/metrics"),
    ],
)
def test_passwords_are_left_out(text: str, hidden: str) -> None:
    assert without_passwords(text) == hidden


def test_no_member_has_a_password(site: Harbour) -> None:
    """Also not what doctor and the log say of the database."""
    site.store_url = "postgresql://berth:geheim@127.0.0.1:1/b?password=geheim"
    texts = gather(load_site(site.write_site()), with_names=True)
    assert [name for name, text in texts.items() if "geheim" in text] == []
    assert "127.0.0.1:1" in texts["doctor.json"]
