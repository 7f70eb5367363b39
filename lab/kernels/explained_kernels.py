"""Pictures of why some kernels run as they do elsewhere, by a bundle that is whole.

The bundle may have learnt from these very kernels: the pictures show how it reasons, not how well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from berth.pilot.documents import write_text
from berth.pilot.platform import Platform
from berth.plugin.pictures import explained
from berth.predictor.families.program.ceilings import Point
from berth.predictor.families.program.explain import explain
from berth.predictor.families.program.predictor import Predictor
from lab.kernels.examples import Example

MOST = 3
LIST = "explanations.md"


def draw_kernels(
    examples: Sequence[Example],
    platforms: Mapping[str, Platform],
    predictor: Predictor,
    folder: Path,
) -> list[Path]:
    """``why-KERNEL.svg`` for the largest size of evenly chosen kernels, sentences in ``LIST``.

    Shown are the platforms that the bundle has labels of. Raises ToolMissing.
    """
    largest = {e.kernel: e for e in sorted(examples, key=lambda e: e.size)}
    names = sorted(largest)
    chosen = names[:: -(-len(names) // MOST)]
    wanted = [platforms[name] for name in predictor.bundle.models if name in platforms]
    lines = [
        "# Why kernels run as they do elsewhere",
        "",
        f"By the bundle {predictor.bundle_id}, which may have learnt from these kernels: how it",
        "reasons, not how well.",
        "",
    ]
    found = []
    for name in chosen:
        profile = largest[name].profile
        reasons = explain(
            predictor,
            profile,
            [Point(platform, 1) for platform in wanted],
            reference=platforms.get(profile.platform),
        )
        path = folder / f"why-{name}.svg"
        explained.draw(path, profile.name, reasons)
        found.append(path)
        lines += [f"## {profile.name}", "", f"![{name}]({path.name})", ""]
        lines += [f"- {reason.sentence()}" for reason in reasons] + [""]
    write_text(folder / LIST, "\n".join(lines))
    return found
