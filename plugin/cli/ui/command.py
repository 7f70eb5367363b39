"""``berth ui``: serves Berth's web page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from berth.pilot.errors import ToolMissing, UsageError
from berth.plugin.cli.options import store_options
from berth.plugin.installed_site import Installation
from berth.plugin.site_file import SITE_FILE

_folder = click.Path(path_type=Path, exists=True)


@click.command()
@click.option(
    "--listen",
    default="127.0.0.1:0",
    help="HOST:PORT (port 0: a free one), or unix:PATH for a reverse proxy.",
)
@click.option("--demo", is_flag=True, help="Show the demo site, whatever is installed.")
@click.option(
    "--no-token",
    is_flag=True,
    help="On a loopback address: let everybody on this machine look. Default: a token.",
)
@click.option("--host", "hosts", multiple=True, help="Another name that the page may be asked by.")
@click.option(
    "--root-path",
    default="",
    help="Path under which a reverse proxy has it, for example /berth.",
)
@click.option(
    "--user-header",
    help="A reverse proxy's header that names who asks; each then sees their own jobs.",
)
@click.option(
    "--admin",
    "admins",
    multiple=True,
    help="With --user-header: a user who sees all jobs.",
)
@click.option("--fleet", type=_folder, help="GPUs to show (a berth.mig-fleet/1 file).")
@click.option("--plan", type=_folder, help="A plan to show beside them (berth.mig-plan/1).")
@store_options
def ui(
    *,
    listen: str,
    demo: bool,
    no_token: bool,
    hosts: tuple[str, ...],
    root_path: str,
    user_header: str | None,
    admins: tuple[str, ...],
    installation: Installation,
    **shown: Any,
) -> None:
    """Show predictions, placements, jobs, the site and MIG in a browser.

    Prints the address to open, which carries a token. Reads only; nothing is asked of any other
    machine. Needs the extra `berth[ui]`.

    \b
    Example:
      berth ui
      berth ui --site /etc/berth/berth.toml --listen unix:/run/berth/ui.sock --user-header X-User
    """
    try:
        from berth.plugin.ui.guard import UiSettings  # noqa: PLC0415
        from berth.plugin.ui.serving import serve_ui  # noqa: PLC0415 - of the extra
    except ImportError as error:
        raise ToolMissing(
            error.name or "flask", needed_for="the page", hint="pip install 'berth[ui]'"
        ) from None
    if admins and user_header is None:
        raise UsageError("--admin belongs to --user-header")
    if user_header is not None and not listen.startswith("unix:"):
        raise UsageError(
            "with --user-header whoever reaches the page can say who they are",
            hint="let the reverse proxy alone reach it: --listen unix:PATH",
        )
    if root_path and not root_path.startswith("/"):
        raise UsageError("--root-path begins with /")
    site_file, store_url = installation.site_file, installation.store_url
    if demo:
        site_file, store_url = None, None
    elif site_file is None and SITE_FILE.exists():
        site_file = SITE_FILE
    settings = UiSettings(
        site_file=site_file,
        store_url=store_url,
        hosts=(*UiSettings().hosts, *hosts),
        root_path=root_path.rstrip("/"),
        user_header=user_header,
        admins=admins,
        **shown,
    )
    serve_ui(
        settings,
        listen,
        with_token=not no_token and not listen.startswith("unix:"),
        announce=lambda address: click.echo(f"Open {address}"),
    )
