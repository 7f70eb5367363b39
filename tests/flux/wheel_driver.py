"""Runs recorded jobspecs through the real classes of the flux-python wheel, without libflux.

Run by a Python that has the wheel and ply. The wheel's compiled ``_flux`` needs libflux-core, which
no package carries, so a stand-in takes its place; ``Jobspec``, ``validate_jobspec`` and the stock
frobnicators are Flux's own. Reads lines as `flux job-frobnicator` does, prints its answers.

    python wheel_driver.py CONFIG.json PLUGIN... < LINES
"""

import importlib.util
import io
import json
import re
import sys
import types
from pathlib import Path


def constants():
    """Every constant that the wheel's modules take from the C library."""
    folder = Path(importlib.util.find_spec("flux").submodule_search_locations[0])
    return sorted({n for p in folder.rglob("*.py") for n in _NAME.findall(p.read_text())})


_NAME = re.compile(r"\bFLUX_[A-Z_]+\b")


class Anything:
    """Stands for whatever of the C library is named at import."""

    NULL = None

    def __getattr__(self, name):
        return 1 if name.startswith("FLUX_") else Anything()

    def __call__(self, *args, **kwargs):
        return Anything()

    def __iter__(self):
        return iter(())

    def __dir__(self):
        return constants()


def stand_in():
    """Put modules for ``_flux`` where Python finds them first."""
    package = types.ModuleType("_flux")
    package.__path__ = []
    sys.modules["_flux"] = package
    for name in ("_core", "_hostlist", "_idset", "_security"):
        module = types.ModuleType(f"_flux.{name}")
        module.ffi, module.lib = Anything(), Anything()
        setattr(package, name, module)
        sys.modules[module.__name__] = module


def main():
    """As `flux job-frobnicator` does, and each answer validated."""
    stand_in()
    from flux.importer import import_path
    from flux.job import Jobspec, validate_jobspec
    from flux.job.frobnicator.plugins import constraints, defaults

    config = json.loads(Path(sys.argv[1]).read_text())
    stock = {"constraints": constraints, "defaults": defaults}
    plugins = []
    for name in sys.argv[2:]:
        module = stock.get(name) or import_path(name)
        plugin = module.Frobnicator(parser=None)
        if hasattr(plugin, "queue_conf"):  # later than 0.88
            from flux.queue import QueueConf

            plugin.queue_conf = QueueConf.from_config(config)
        plugin.configure(None, config=config)
        plugins.append(plugin)
    answers = sys.stdout
    for line in sys.stdin:
        info = json.loads(line)
        sys.stdout = io.StringIO()
        try:
            jobspec = Jobspec(**info["jobspec"])
            for plugin in plugins:
                plugin.frob(jobspec, info["userid"], info["urgency"], info["flags"])
            validate_jobspec(json.dumps(jobspec.jobspec))
            result = {"errnum": 0, "data": jobspec.jobspec}
        except Exception as error:
            result = {"errnum": 1, "errstr": f"{type(error).__name__}: {error}"}
        result["printed"] = sys.stdout.getvalue()
        print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    main()
