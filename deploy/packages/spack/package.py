# Made from the wheel of one build (deploy/packages/build_packages.py): put it into a repository of
# your own as packages/py_berth/package.py, and call `spack install py-berth` beside the wheel.

import os

from spack.package import *


class PyBerth(PythonPackage):
    """Puts each job where it runs best: a placement plugin for Slurm and Flux."""

    manual_download = True
    url = f"file://{os.getcwd()}/berth-@VERSION@-py3-none-any.whl"

    license("Apache-2.0")

    version("@VERSION@", sha256="@SHA256@", expand=False)

    variant("metrics", default=True, description="Prometheus metrics")
    variant("postgresql", default=False, description="One store for several hosts")

    depends_on("python@3.11:", type=("build", "run"))
    # @DEPENDENCIES@
    depends_on("lua-luasocket", type="run")
    depends_on("valgrind", type="run")
