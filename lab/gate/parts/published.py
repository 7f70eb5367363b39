"""The published systems on AIWC beside the shipped cost model: VAE + DNN and xAMM (long)."""

from __future__ import annotations

from lab.gate.part import Work
from lab.ground.resume import Resume
from lab.published.vae.vae_dnn import VaeFamily
from lab.published.xamm.family import FAMILIES as XAMM
from lab.relative.data import aiwc_rows
from lab.relative.evaluation import evaluate

FAMILIES = {
    "vae": "VAE + DNN",
    "xamm": "xAMM: attention + AMM (l2), xgboost",
    "xamm-raw": "xAMM: raw + AMM (l2), xgboost",
}
SPLITS = {"application": "unseen application", "rows": "random rows"}
NOT_PRINTED = ("xamm-raw", "rows")
SHOWN = {"regret": "regret", "tau": "kendall_tau", "median": "median_time_error"}


def figures(work: Work) -> dict[str, float]:
    """Regret, order and median error of each family by both splits."""
    found = evaluate(
        aiwc_rows(), (VaeFamily(), *XAMM), data="AIWC", seeds=(work.seed,),
        resume=Resume(work.folder), advance=work.advance,
    )  # fmt: skip
    by_name = {(one.family, one.split): one.figures for one in found.results}
    return {
        f"{family}.{split}.{short}": by_name[name, where][figure]
        for family, name in FAMILIES.items()
        for split, where in SPLITS.items()
        if (family, split) != NOT_PRINTED
        for short, figure in SHOWN.items()
    }
