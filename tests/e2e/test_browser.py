"""The page of `pfw report` in a browser: it shows what the commands print, and everyone can read and use it."""
import json
import re
import sys

import pytest

from browser import browser, complaints, keep_picture, requests
from harness import PFW, SOURCE, clean_environment, run
from test_report import training

PROGRAMS = {
    "copy": ["cp", "-r", SOURCE / "src", "copied"],
    "python": [sys.executable, "-c", "import json, glob\nfor name in glob.glob('/usr/lib/python3/dist-packages/**/*.py', "
               "recursive=True)[:300]:\n    open('sum', 'a').write(str(len(open(name, errors='replace').read())))"],
    "archive": ["tar", "-czf", "all.tar.gz", "-C", SOURCE, "src", "tools"],
}
SIZES = [(1280, False), (1280, True), (400, False), (400, True)]


def traced(top, name):
    """The trace of a real program, or of what no program here does: many ranks."""
    if name in PROGRAMS:
        run([PFW, "run", "-q", "-o", top / "t/t", "--", *PROGRAMS[name]], clean_environment(), top)
    else:
        training(top / "t", ranks=int(name))
    return top / "t"


def made(top, name):
    page = top / "r.html"
    run([PFW, "report", "-q", traced(top, name), "-o", page])
    return page


def rows_of(*words):
    return [json.loads(line) for line in run([PFW, *words, "-q", "--format=ndjson"]).stdout.splitlines()]


def shown(driver, section):
    """The cells of a section's table, row by row."""
    return driver.execute_script(
        "const table = document.querySelector(`[aria-labelledby=\"${arguments[0]}\"] tbody`);"
        "return table && [...table.rows].map(row => [...row.cells].map(cell => cell.textContent))", section)


@pytest.mark.parametrize("name", [*PROGRAMS, "3", "1000"])
def test_shows_what_the_commands_print(tmp_path, name):
    page = made(tmp_path, name)
    assert page.stat().st_size < 5e6
    calls = [row for row in rows_of("table", tmp_path / "t", "--row-limit=500") if row["section"] == "io"]
    with browser() as driver:
        driver.get(page.as_uri())
        assert driver.find_element("id", "page").get_attribute("data-ready") == "yes"
        for button in driver.find_elements("xpath", "//button[text()='Show all']"):
            if button.is_displayed():
                button.click()
        cells = shown(driver, "i-o-calls")
        assert {row[0]: row[3] for row in cells} == {row["name"]: f"{row['count']:,}" for row in calls}
        if name not in PROGRAMS:
            assert len(shown(driver, "ranks")) == int(name)
            kernels = {str(row["step"]): row["self_device_time_total"] for row in rows_of("table", tmp_path / "t", "-g", "step,args.kind")
                       if row.get("args.kind") == "kernel"}
            unit = "µs" if int(name) < 100 else "ms"
            assert {row[:2] for row in map(tuple, shown(driver, "gpu-kernels-by-launch"))} == {("gemm", "aten::mm")}
            assert f"Most behind the median rank: rank {int(name) - 1} (" in driver.find_element("id", "page").text
            assert {row[0]: row[1] for row in shown(driver, "kinds-of-work-in-steps")} == {
                step: f"{us / (1 if unit == 'µs' else 1000):.3f} {unit}" for step, us in kernels.items()} != {}
        assert complaints(driver) == []
        if name == "3":
            slices = driver.execute_script("return [...document.querySelectorAll('.pie title')].map(one => one.textContent)")
            assert "gemm: 288.000 µs, 100.0 %" in slices and len(slices) > 3
        assert [address for address, _ in requests(driver) if not address.startswith(("file:", "data:"))] == []


# Each text's own colour against what is behind it: at least 4.5 to 1 (WCAG 2.1, 1.4.3).
CONTRAST = r"""
const parts = text => (text.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
function light([r, g, b]) {
	const [x, y, z] = [r, g, b].map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
	return 0.2126 * x + 0.7152 * y + 0.0722 * z;
}
function behind(element) {
	const frame = element.closest("g[data-w]"); /* of a flame graph: its text stands on its own rectangle */
	if (frame)
		return parts(getComputedStyle(frame.querySelector("rect")).fill);
	for (; element; element = element.parentElement) {
		const colour = parts(getComputedStyle(element).backgroundColor);
		if (colour.length < 4 || colour[3] === 1)
			return colour;
	}
	return [255, 255, 255];
}
const bad = new Set(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let texts = 0;
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
	const element = node.parentElement;
	if (!node.textContent.trim() || /^(SCRIPT|STYLE|TITLE)$/i.test(element.tagName) || !element.getClientRects().length)
		continue;
	const svg = element instanceof SVGElement, style = getComputedStyle(element);
	const colours = [parts(svg ? style.fill : style.color), behind(element)].map(light).sort((a, b) => b - a);
	const ratio = (colours[0] + 0.05) / (colours[1] + 0.05);
	texts++;
	if (ratio < 4.5)
		bad.add(`${element.tagName}.${element.className.baseVal ?? element.className}: ${ratio.toFixed(2)} "${node.textContent.trim().slice(0, 30)}"`);
}
return [texts, [...bad].slice(0, 20)];
"""

# Names for all that can be used, headings without a gap, and a label for each picture.
NAMES = r"""
const bad = [];
let level = 1;
if (!document.documentElement.lang) bad.push("the page has no language");
if (document.querySelectorAll("h1").length !== 1) bad.push("not one h1");
for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
	const own = Number(heading.tagName[1]);
	if (own > level + 1) bad.push(`${heading.tagName} after h${level}: ${heading.textContent}`);
	level = own;
}
for (const one of document.querySelectorAll("button, input, select, a"))
	if (!(one.textContent.trim() || one.getAttribute("aria-label") || one.title)) bad.push(one.outerHTML.slice(0, 80));
for (const svg of document.querySelectorAll("svg"))
	if (!svg.getAttribute("aria-label") && !svg.querySelector("title") && svg.getAttribute("aria-hidden") !== "true")
		bad.push(svg.outerHTML.slice(0, 80));
return bad;
"""


@pytest.mark.parametrize("width,dark", SIZES)
def test_everyone_can_read_it(tmp_path, width, dark):
    page = made(tmp_path, "3")
    with browser(width, dark=dark) as driver:
        driver.get(page.as_uri())
        texts, bad = driver.execute_script(CONTRAST)
        assert texts > 100 and bad == []
        assert driver.execute_script(NAMES) == []
        # Tables and charts are wider than a telephone, and scroll by themselves; the page does not.
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        assert complaints(driver) == []
        keep_picture(driver, f"report-{width}-{'dark' if dark else 'light'}")


def test_keyboard_goes_from_the_top_to_the_bottom(tmp_path):
    """Tab reaches everything that can be used, in the order of the page, and what has the focus is marked."""
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    page = made(tmp_path, "3")
    with browser() as driver:
        driver.get(page.as_uri())
        wanted = driver.execute_script(
            "return [...document.querySelectorAll('a, button, input, select, [tabindex=\"0\"]')]"
            ".filter(one => one.getClientRects().length && !one.disabled).length")
        driver.execute_script("window.reached = new Set(); window.falls = 0; window.last = null; window.unmarked = []")
        step = ("const one = document.activeElement;"
                "if (one === document.body || reached.has(one)) return false;"
                "if (last && !(last.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING)) falls++;"
                "if (getComputedStyle(one).outlineStyle === 'none') unmarked.push(one.outerHTML.slice(0, 80));"
                "reached.add(last = one); return true")
        while True:
            driver.switch_to.active_element.send_keys(keys.TAB)
            if not driver.execute_script(step):
                break
        # Chromium lets the keyboard scroll what scrolls: such a box may have the focus, too.
        assert driver.execute_script("return [reached.size, falls, unmarked]")[1:] == [0, []]
        assert driver.execute_script("return reached.size") >= wanted > 10


def cpu(driver):
    """Seconds of the page's own thread, since the page was asked for."""
    return {one["name"]: one["value"] for one in driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}["TaskDuration"]


def grown(page, size):
    """The page with its rows several times."""
    begin, text, end = re.fullmatch(r'(.*id="data">\n)(.*?)(</script>.*)', page.read_text(), re.S).groups()
    data, times = json.loads(text), size // len(text) + 2
    for sheet in data["sheets"].values():
        sheet["rows"] *= times
    page.write_text(begin + json.dumps(data, separators=(",", ":")).replace("<", "\\u003c") + end)
    return page


def test_nothing_moves_and_the_first_paint_is_soon(tmp_path):
    """The page of 1,000 ranks, made into one of 5 MB: no layout shift, and less than a second of the page's own CPU
    time until it is drawn, whatever else the machine does."""
    page = grown(made(tmp_path, "1000"), 5_000_000)
    assert page.stat().st_size > 5e6
    with browser() as driver:
        driver.get("about:blank")
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": """
            window.shifts = 0;
            new PerformanceObserver(list => { for (const one of list.getEntries()) window.shifts += one.value; })
                .observe({ type: "layout-shift", buffered: true });"""})
        driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        seconds = []
        for _ in range(5):
            driver.get(page.as_uri())
            driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(arguments[0], 300)))")
            assert driver.execute_script("return shifts") < 0.01
            seconds.append(cpu(driver))
            paint = driver.execute_script("return performance.getEntriesByName('first-contentful-paint')[0].startTime")
            print(f"first paint after {paint:.0f} ms, {seconds[-1]:.3f} s of CPU, {page.stat().st_size} bytes")
        assert 0 < sorted(seconds)[2] < 1


def test_sorts_filters_and_zooms(tmp_path):
    page = made(tmp_path, "copy")
    with browser() as driver:
        driver.get(page.as_uri())
        section = driver.find_element("css selector", '[aria-labelledby="files"]')
        whole = shown(driver, "files")
        section.find_element("css selector", "input").send_keys("writer")
        found = shown(driver, "files")
        assert 0 < len(found) and all("writer" in row[0].lower() for row in found)
        section.find_element("css selector", "input").clear()
        section.find_element("css selector", "input").send_keys(" \b")
        section.find_element("xpath", ".//th/button[text()='File']").click()
        course = driver.find_element("css selector", '[aria-labelledby="course-over-time"]')
        charts = course.find_elements("tag name", "svg")
        assert len(charts) == 3  # busy shares, calls, bandwidth
        zoom = lambda: {tuple(map(float, chart.get_dom_attribute("viewBox").split())) for chart in charts}
        course.find_element("css selector", "[aria-label='Zoom in']").click()
        assert zoom() == {(300, 0, 600, 155)}
        course.find_element("css selector", "[aria-label='Later']").click()
        assert zoom() == {(600, 0, 600, 155)}
        chains = pytest.importorskip("selenium.webdriver.common.action_chains").ActionChains
        wide = charts[1].size["width"]
        chains(driver).move_to_element(charts[1]).click_and_hold().move_by_offset(int(wide / 4), 0).release().perform()
        (left, _, width, _), = zoom()
        assert abs(left - 900) < 5 and abs(width - 150) < 5
        course.find_element("css selector", "[aria-label='Show all of the time']").click()
        assert zoom() == {(0, 0, 1200, 155)}
        names = [row[0] for row in shown(driver, "files")]
        assert len(names) == len(whole) and names == sorted(names, reverse=True)
        assert re.search("(ascending|descending)", section.find_element("xpath", ".//th[button[text()='File']]").get_attribute("aria-sort"))
        assert complaints(driver) == []
