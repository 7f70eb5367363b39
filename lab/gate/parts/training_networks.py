"""TraPPM beside the shipped predictor of training steps, and transfer to other devices (long)."""

from __future__ import annotations

from lab.gate.part import Work
from lab.steps import labels
from lab.steps.training_parts import PRETRAINED, Session, auto_encoder
from lab.steps.training_runs import NAMES, TIME, table
from lab.steps.training_transfer import OURS, transfer

SPLITS = {
    "rows at random, 70:30 in each family, five seeds": "rows",
    "unseen model": "model",
    "unseen family": "family",
}
CASES = {
    "training, 3090 -> one core of epyc-genoa-vm": "cpu",
    "inference as a stand-in, 3090 -> 5090": "5090",
    "inference as a stand-in, 3090 -> pro6000maxq": "pro6000",
}


def figures(work: Work) -> dict[str, float]:
    """Edges, mean errors of TraPPM on the RTX 3090, and of the shipped method elsewhere."""
    session = Session(work.seed, work.folder, work.advance)
    made = {"edges.auc": float(auto_encoder(session)["arms"][PRETRAINED]["edges"]["auc"])}
    for row in table("gpu", labels.gpu(), session, only=(NAMES[PRETRAINED],)):
        if row.target == TIME:
            made[f"trappm.{SPLITS[row.split]}.mape"] = row.figures.mape
    for one in transfer(session):
        if one["method"] == OURS and one["k"] in {0, 32}:
            made[f"moved.{CASES[one['case']]}.{one['k']}.mape"] = one["mape"]
    return made
