/* Draws a report: the JSON in #data, which `pfw report --format json` prints, as tables and charts.  Every
 * figure is one of a command; the page only adds up what it draws. */
(function () {
	"use strict";
	const data = JSON.parse(document.getElementById("data").textContent);

	/* Rows are arrays of values, after an object with their keys. */
	for (const one of Object.values(data.sheets)) {
		let keys;

		one.rows = one.rows.flatMap(row => {
			if (!Array.isArray(row)) {
				({ keys } = row);
				return [];
			}
			return [Object.fromEntries(row.map((value, place) => [keys[place], value]))];
		});
	}
	const page = document.getElementById("page");
	const sheet = name => data.sheets[name];
	const ROWS_AT_FIRST = 30;
	const ROWS_ASKED = 500; /* of each table: sheets.c */

	/* ---- elements and figures ---- */

	function make(tag, attributes, ...children) {
		const element = document.createElement(tag);

		for (const [name, value] of Object.entries(attributes || {})) {
			if (name.startsWith("on"))
				element.addEventListener(name.slice(2), value);
			else if (value !== null && value !== undefined)
				element.setAttribute(name, value);
		}
		element.append(...children);
		return element;
	}

	function draw(tag, attributes, ...children) {
		const element = document.createElementNS("http://www.w3.org/2000/svg", tag);

		for (const [name, value] of Object.entries(attributes))
			element.setAttribute(name, value);
		element.append(...children);
		return element;
	}

	const count = number => Math.round(number).toLocaleString("en-US");

	function scaled(number, units, step) {
		let at = 0, size = Math.abs(number);

		while (size >= step && at + 1 < units.length) {
			size /= step;
			at++;
		}
		return `${(Math.sign(number) * size).toFixed(at || size % 1 ? size < 10 ? 2 : 1 : 0)} ${units[at]}`;
	}

	/* Times come in µs. */
	function time(us) {
		return us === 0 ? "0" : Math.abs(us) >= 1e6 ? `${(us / 1e6).toFixed(3)} s` : Math.abs(us) >= 1e3 ? `${(us / 1e3).toFixed(3)} ms`
			: `${us.toFixed(3)} µs`;
	}
	const bytes = number => scaled(number, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024);
	const percent = number => `${number.toFixed(1)} %`;

	/* What the numbers of pfw table are; its columns are PyTorch's, and have no unit of their own. */
	const KINDS = { total: "time", self: "time", avg: "time", min: "time", p50: "time", p95: "time", p99: "time", max: "time",
			bytes: "bytes", mean_size: "bytes", bandwidth: "rate", flops: "flops", self_flops: "flops",
			flops_per_second: "speed", change: "change", beside: "change" };

	function kindOf(kinds, key) {
		if (kinds[key] !== "number" && kinds[key] !== "count")
			return kinds[key];
		return KINDS[key] || (/_time(_total)?$/.test(key) ? "time" : /percent$/.test(key) ? "percent" : kinds[key]);
	}

	function figure(kind, value) {
		if (typeof value === "boolean")
			return value ? "yes" : "no";
		if (value === null || value === undefined)
			return "-";
		if (typeof value !== "number")
			return value === "" ? "(none)" : String(value);
		switch (kind) {
		case "time": return time(value);
		case "bytes": return bytes(value);
		case "rate": return `${bytes(value)}/s`;
		case "percent": return percent(value);
		case "flops": return value ? scaled(value, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"], 1000) : "-";
		case "change": return `${value > 0 ? "+" : ""}${percent(value)}`;
		case "speed": return value ? `${figure("flops", value)}/s` : "-";
		case "count": return count(value);
		case "number": return Number(value.toPrecision(5)).toLocaleString("en-US", { maximumFractionDigits: 3 });
		default: return String(value);
		}
	}

	function section(title, text, ...children) {
		const id = title.toLowerCase().replace(/[^a-z]+/g, "-");

		page.append(make("section", { "aria-labelledby": id }, make("h2", { id }, title),
				 make("p", {}, ...text), ...children));
	}
	const command = words => make("code", {}, `pfw ${words}`);
	const cut = rows => rows.length < ROWS_ASKED ? "" : `The first ${count(rows.length)} are here; --row-limit -1 shows all. `;

	/* ---- tables ---- */

	const TITLES = {
		"args.grid": "Grid", "args.block": "Block", "args.registers": "Registers", "args.static_smem": "Static shared",
		"args.dynamic_smem": "Dynamic shared", "args.occupancy": "Occupancy", "args.blocks_per_sm": "Blocks per SM",
		tensor_cores: "Tensor cores", tensor_percent: "Tensor cores", of_kernel: "Kernel", of_memcpy: "Memcpy", of_memset: "Memset", of_runtime: "Runtime",
		of_driver: "Driver", of_sync: "Waiting for GPU", of_cpu_op: "CPU operators", of_annotation: "Annotations", of_step: "Other",
		of_span: "Spans", of_overhead: "CUPTI's overhead", of_memory: "Memory", of_event: "Events", of_jit: "JIT", of_graph: "Graphs",
		operator: "Operator", rank: "Rank", wall: "Wall", io: "I/O", compute: "Compute", gpu: "GPU", comm: "Comm", copy: "Copies", load: "Loading",
		io_unoverlapped: "I/O alone", comm_unoverlapped: "Comm alone", idle: "GPU idle", io_calls: "I/O calls",
		io_bytes: "I/O bytes", steps_own: "Own time a step", steps_slowest: "Steps slowest", name: "Name", count: "Calls",
		total: "Total", total_percent: "% of I/O", avg: "Mean", p50: "Median", p95: "p95", max: "Max", bytes: "Bytes",
		mean_size: "Mean size", bandwidth: "Bandwidth", fname: "File", self_cpu_time_total: "Self CPU", cpu_time_total: "CPU total",
		cpu_time: "CPU mean", self_device_time_total: "Self device", device_time_total: "Device total",
		self_cpu_percent: "Self CPU %", opens: "Opens", reads: "Reads", writes: "Writes", read_bytes: "Bytes read",
		written_bytes: "Bytes written", consecutive: "Consecutive %", sequential: "Sequential %", random: "Random %", small: "Small %",
		unaligned: "Unaligned %", metadata_calls: "Metadata calls", metadata_us: "Metadata time", data_us: "Data time",
		device_time: "Mean", min: "Min", total_device_percent: "% of device", shape: "Input shapes", flops: "FLOPs",
		self_flops: "FLOPs", flops_per_second: "FLOP/s", peak_percent: "% of peak", cpu: "Operators",
		cat: "Category", count_a: "Calls A", count_b: "Calls B", total_a: "Total A", total_b: "Total B", difference: "Difference",
		typical_a: "Typical A", typical_b: "Typical B", change: "Change", beside: "Beside the rest", p: "p",
		significant: "Significant",
		step: "Step", pid: "Pid", device: "Device", allocations: "Allocations", allocated_bytes: "Allocated", frees: "Frees",
		freed_bytes: "Freed", peak_bytes: "Peak", peak_allocated_bytes: "Peak as told", peak_reserved_bytes: "Reserved",
		end_bytes: "At the end", unfreed: "Not freed", unfreed_bytes: "Bytes not freed", growth_bytes: "Growth",
		greatest_bytes: "Greatest", addr: "Address", since: "Allocated at", freed: "Freed at", dur: "Duration",
	};

	function compare(a, b) {
		if (a === b)
			return 0;
		if (a === null || a === undefined || b === null || b === undefined)
			return a === null || a === undefined ? -1 : 1;
		return typeof a === "number" && typeof b === "number" ? a - b : String(a) < String(b) ? -1 : 1;
	}

	/* A table that sorts by a column's head and filters by its first text. */
	function table(kinds, rows, keys, sortedBy) {
		const known = (key, value) => value !== null && value !== undefined && !(key.startsWith("args.") && value === "");
		const shown = keys.filter(key => rows.some(row => known(key, row[key])));
		const text = shown.find(key => kinds[key] === "text");
		const head = make("tr", {}), body = make("tbody", {}), say = make("span", { role: "status" });
		let key = sortedBy, down = sortedBy !== "step", wanted = "", limit = ROWS_AT_FIRST;

		function fill() {
			const all = rows.filter(row => !wanted || String(row[text]).toLowerCase().includes(wanted));

			if (key)
				all.sort((a, b) => (down ? -1 : 1) * compare(a[key], b[key]));
			body.replaceChildren(...all.slice(0, limit).map(row => make("tr", {}, ...shown.map(one =>
				make("td", { class: one === "fname" ? "text path" : kinds[one] === "text" ? "text" : null,
					     title: kinds[one] === "text" ? row[one] : null },
				     one === "fname" ? make("bdi", {}, figure("text", row[one]))
					     : (one.startsWith("args.") || one === "operator") && row[one] === "" ? "-" : figure(kindOf(kinds, one), row[one]))))));
			for (const cell of head.children)
				cell.setAttribute("aria-sort", cell.dataset.key !== key ? "none" : down ? "descending" : "ascending");
			say.textContent = `${count(Math.min(limit, all.length))} of ${count(all.length)} rows`;
			more.hidden = all.length <= limit;
		}
		function sort(by) {
			down = key === by ? !down : true;
			key = by;
			fill();
		}
		const more = make("button", { type: "button", onclick: () => { limit = Infinity; fill(); } }, "Show all");
		const filter = make("input", { type: "search", placeholder: "Filter", "aria-label": "Filter rows",
					       oninput: event => { wanted = event.target.value.toLowerCase(); fill(); } });

		head.append(...shown.map(one => make("th", { class: kinds[one] === "text" ? "text" : null, "data-key": one,
							     scope: "col" },
			make("button", { type: "button", onclick: () => sort(one) }, TITLES[one] || one))));
		fill();
		return [make("div", { class: "tools" }, ...(text ? [filter] : []), say, more),
			make("div", { class: "scroll", tabindex: "0" }, make("table", {}, make("thead", {}, head), body))];
	}

	/* ---- charts ---- */

	const PARTS = [["compute", "Compute", "--compute"], ["io_alone", "I/O alone", "--io"],
		       ["comm_alone", "Communication alone", "--comm"], ["rest", "Neither", "--rest"]];

	/* What a time consists of, without overlap: compute, what it does not hide, and the rest. */
	function parts(row) {
		const compute = row.compute || 0, io = row.io_unoverlapped || 0;
		const comm = row.compute === null ? row.comm || 0 : 0;

		return { compute, io_alone: io, comm_alone: comm, rest: Math.max(0, row.wall - compute - io - comm) };
	}

	function legend(entries) {
		return make("div", { class: "legend" }, ...entries.map(([, title, colour]) =>
			make("span", {}, make("i", { style: `background:var(${colour})` }), title)));
	}

	function median(values) {
		const sorted = values.slice().sort((a, b) => a - b);

		return sorted.length ? sorted[(sorted.length - 1) >> 1] : 0;
	}

	/* A column each step: of the rank in whose time it is the median one. */
	function medianSteps(steps) {
		const numbers = [...new Set(steps.map(row => row.step))].sort((a, b) => a - b);

		return numbers.map(number => {
			const of = steps.filter(row => row.step === number).sort((a, b) => a.wall - b.wall);

			return of[(of.length - 1) >> 1];
		});
	}
	const longest = chosen => Math.max(...chosen.map(row => row.wall));
	/* A first step may take a hundred times as long as the others, which are what people want to see. */
	const scaleOf = chosen => Math.min(longest(chosen), 4 * median(chosen.map(row => row.wall)) || Infinity);

	function stepChart(chosen, most) {
		const width = 1200 / chosen.length;
		const svg = draw("svg", { viewBox: "0 0 1200 200", role: "img", preserveAspectRatio: "none", height: 200,
					  "aria-label": `The time of ${chosen.length} steps, the longest ${time(longest(chosen))}` });

		chosen.forEach((row, place) => {
			const of = parts(row);
			let y = 200;

			for (const [key, title, colour] of PARTS) {
				const height = 190 * of[key] / most;

				y -= height;
				if (height > 0)
					svg.append(draw("rect", { x: (place * width).toFixed(2), y: y.toFixed(2), height: height.toFixed(2),
								  width: Math.max(width - (width > 4 ? 1 : 0), 0.5).toFixed(2),
								  fill: `var(${colour})` },
						draw("title", {}, `step ${row.step}, ${title}: ${time(of[key])} of ${time(row.wall)}`)));
			}
		});
		return svg;
	}

	function stepsByRank(steps) {
		const of = new Map();

		for (const row of steps) {
			if (!of.has(row.rank))
				of.set(row.rank, new Map());
			of.get(row.rank).set(row.step, row.wall);
		}
		return of;
	}

	/* Ranks by steps: red is slower than the median of the step, by up to a half. */
	function heatMap(steps) {
		const of = stepsByRank(steps), numbers = [...new Set(steps.map(row => row.step))].sort((a, b) => a - b);
		const step = Math.ceil(numbers.length / 300), columns = numbers.filter((_, place) => place % step === 0);
		const width = 1140 / columns.length, height = 16, ranks = [...of.keys()].sort((a, b) => a - b);
		const svg = draw("svg", { viewBox: `0 0 1200 ${ranks.length * height + 4}`, role: "img",
					  "aria-label": "Time of each rank in each step, against the median of the step" });

		columns.forEach((number, place) => {
			const middle = median(ranks.map(rank => of.get(rank).get(number)).filter(wall => wall !== undefined));

			ranks.forEach((rank, row) => {
				const wall = of.get(rank).get(number), slow = wall / middle - 1;

				if (wall === undefined || !middle)
					return;
				svg.append(draw("rect", { x: (58 + place * width).toFixed(2), y: row * height + 2,
							  width: Math.max(width - 0.3, 0.4).toFixed(2), height: height - 1,
							  fill: slow > 0 ? "var(--bad)" : "var(--io)",
							  opacity: (0.08 + 0.92 * Math.min(Math.abs(slow) * 2, 1)).toFixed(2) },
					draw("title", {}, `rank ${rank}, step ${number}: ${time(wall)}, ` +
					     `${slow >= 0 ? "+" : ""}${percent(100 * slow)} against the median`)));
			});
		});
		ranks.forEach((rank, row) => svg.append(draw("text", { x: 50, y: row * height + 14, "text-anchor": "end" },
							     String(rank))));
		return svg;
	}

	const SERIES = [["io", "I/O busy", "--io"], ["cpu", "Operators", "--compute"], ["kernels", "Kernels", "--kernels"],
			["copy", "Copies", "--copy"]];

	function line(points, value, most, colour) {
		const d = points.map((row, place) => `${place ? "L" : "M"}${(1200 * (place + 0.5) / points.length).toFixed(1)},` +
				     `${(150 - 140 * Math.min(value(row) / most, 1)).toFixed(1)}`).join("");

		return draw("path", { d, fill: "none", stroke: `var(${colour})`, "stroke-width": 2,
				      "vector-effect": "non-scaling-stroke" });
	}

	/* The part of the time that a group of charts shows: by dragging over one, by buttons, by the keys + and -. */
	function zoomed(charts, first, last) {
		let from = 0, to = 1200, drag = null;
		const say = make("span", { role: "status" }), at = x => time((last - first) * x / 1200);

		function show(begin, end) {
			const width = Math.min(Math.max(end - begin, 10), 1200);

			from = Math.min(Math.max(begin, 0), 1200 - width);
			to = from + width;
			for (const chart of charts)
				chart.setAttribute("viewBox", `${from} 0 ${to - from} 155`);
			say.textContent = `${at(from)} to ${at(to)}`;
			buttons[1].disabled = to - from >= 1200;
		}
		const scale = by => show((from + to) / 2 - (to - from) * by / 2, (from + to) / 2 + (to - from) * by / 2);
		const move = by => show(from + (to - from) * by, to + (to - from) * by);
		const button = (text, label, act) => make("button", { type: "button", "aria-label": label, onclick: act }, text);
		const buttons = [button("+", "Zoom in", () => scale(0.5)), button("\u2212", "Zoom out", () => scale(2)),
				 button("\u25c2", "Earlier", () => move(-0.5)), button("\u25b8", "Later", () => move(0.5)),
				 button("All", "Show all of the time", () => show(0, 1200))];
		const place = (chart, event) => {
			const box = chart.getBoundingClientRect();

			return from + (to - from) * (event.clientX - box.left) / box.width;
		};

		for (const chart of charts) {
			chart.addEventListener("pointerdown", event => { drag = place(chart, event); });
			chart.addEventListener("pointerup", event => {
				const end = place(chart, event);

				if (drag !== null && Math.abs(end - drag) > (to - from) / 100)
					show(Math.min(drag, end), Math.max(drag, end));
				drag = null;
			});
			chart.addEventListener("dblclick", () => show(0, 1200));
		}
		show(0, 1200);
		return make("div", { class: "tools zoom" }, ...buttons, say);
	}

	/* The largest shares of a whole; what is left is one more. */
	const PIE = ["--io", "--compute", "--kernels", "--comm", "--copy", "--bad", "--soft"], SHARES = PIE.length;

	function pie(title, rows, key) {
		const sorted = rows.filter(row => row[key] > 0).sort((a, b) => b[key] - a[key]);
		const whole = sorted.reduce((sum, row) => sum + row[key], 0), few = sorted.slice(0, SHARES);
		const shares = few.map((row, place) => [row.name, row[key], PIE[place]]);
		const point = part => `${(60 + 58 * Math.sin(2 * Math.PI * part)).toFixed(2)},${(60 - 58 * Math.cos(2 * Math.PI * part)).toFixed(2)}`;
		let done = 0;

		if (!sorted.length)
			return null;
		if (sorted.length > few.length)
			shares.push([`${count(sorted.length - few.length)} others`, whole - few.reduce((sum, row) => sum + row[key], 0), "--rest"]);
		const slices = shares.map(([name, value, colour]) => {
			const begin = done, share = value / whole, text = draw("title", {}, `${name}: ${time(value)}, ${percent(100 * share)}`);

			done += share;
			return share > 0.9999 ? draw("circle", { cx: 60, cy: 60, r: 58, fill: `var(${colour})` }, text)
				: draw("path", { d: `M60,60L${point(begin)}A58,58 0 ${share > 0.5 ? 1 : 0} 1 ${point(done)}Z`, fill: `var(${colour})` }, text);
		});

		return make("figure", { class: "pie" }, make("figcaption", {}, title),
			draw("svg", { viewBox: "0 0 120 120", role: "img", "aria-label": title }, ...slices),
			make("div", { class: "legend" }, ...shares.map(([name, value, colour]) =>
				make("span", { title: name }, make("i", { style: `background:var(${colour})` }), `${percent(100 * value / whole)} ${name}`))));
	}

	function pies(rows, ...shown) {
		const drawn = shown.map(([title, key]) => pie(title, rows, key)).filter(one => one);

		return drawn.length ? [make("div", { class: "pies" }, ...drawn)] : [];
	}

	/* Lines over time; a title on each slice of time says the figures. */
	function seriesChart(points, lines, text, label) {
		const svg = draw("svg", { viewBox: "0 0 1200 155", role: "img", preserveAspectRatio: "none", height: 155,
					  "aria-label": label });

		for (const [value, most, colour] of lines)
			svg.append(line(points, value, most, colour));
		points.forEach((row, place) => svg.append(draw("rect", { x: (1200 * place / points.length).toFixed(1), y: 0, height: 155,
			width: (1200 / points.length).toFixed(1), fill: "transparent" }, draw("title", {}, text(row, place)))));
		return svg;
	}

	/* The bins of all ranks together: their sums, at the times of the first rank's. */
	function binsOfAll(bins) {
		const at = new Map(), sum = ["io_bytes", "io_calls", "io", "cpu", "kernels", "copy"];

		for (const row of bins) {
			const one = at.get(row.ts) || { ts: row.ts, dur: row.dur, ranks: 0 };

			one.ranks++;
			for (const key of sum) {
				if (row[key] !== null && row[key] !== undefined)
					one[key] = (one[key] || 0) + row[key];
			}
			at.set(row.ts, one);
		}
		return [...at.values()].sort((a, b) => a.ts - b.ts);
	}

	/* ---- the page ---- */

	const overlap = sheet("overlap").rows, ofType = type => overlap.filter(row => row.type === type);
	const all = ofType("all")[0] || ofType("rank")[0], ranks = ofType("rank"), steps = ofType("step");

	const compute = steps.some(row => row.cpu || row.gpu);

	function card(title, value, bad) {
		return make("div", { class: bad ? "card bad" : "card" }, make("b", {}, value), make("span", {}, title));
	}

	function drawHead() {
		const run = data.run, cards = [];

		page.append(make("h1", {}, run.run || run.first || "pfw report"));
		if (all) {
			cards.push(card(run.ranks > 1 ? "of all ranks, added up" : "from begin to end", time(all.wall)), card("events", count(all.events)));
			if (all.io !== null)
				cards.push(card("I/O", time(all.io)), card("I/O alone", time(all.io_unoverlapped)),
					   card("moved by I/O", bytes(all.io_bytes)));
			if (all.gpu !== null)
				cards.push(card("GPU busy", time(all.gpu)), card("GPU idle", figure("time", all.idle)));
		}
		if (run.ranks)
			cards.push(card("ranks", count(run.ranks)));
		cards.push(card("processes", count(run.processes)));
		cards.push(card("events lost", run.ended ? count(run.lost) : "-", run.lost > 0));
		if (run.unfinished)
			cards.push(card("traces without an end", count(run.unfinished), true));
		if (run.untraced)
			cards.push(card("processes not traced", count(run.untraced), true));
		page.append(make("div", { class: "cards" }, ...cards));
		page.append(make("p", {}, `pfw ${run.version}. ${run.hosts.length ? `Host ${run.hosts.join(", ")}. ` : ""}` +
				 `${count(run.files)} trace file${run.files === 1 ? "" : "s"}.`));
		if (data.notes.length)
			page.append(make("div", { class: "notes" }, ...data.notes.map(note => make("p", {}, note))));
	}

	function drawFindings() {
		const found = data.findings, list = make("ol", { class: "findings" });

		for (const one of found)
			list.append(make("li", {}, make("b", {}, `${one.text}.`), make("br"), `${one.remedy} `, make("code", {}, one.query)));
		const others = make("ol", { class: "findings", start: 4 });

		others.append(...[...list.children].slice(3));
		section("What to look at first", [found.length ? "By what each costs at most; one may be the cause of another."
			: "No rule found a cost of a tenth of the time."], ...(found.length ? [list] : []),
			...(others.children.length ? [make("details", {}, make("summary", {}, `${found.length - 3} more`), others)] : []));
	}

	function drawSteps() {
		if (!steps.length)
			return;
		const shownRanks = new Set(steps.map(row => row.rank)).size, chosen = medianSteps(steps), text = ["Each column is a step, of the rank with the median time. "];

		if (scaleOf(chosen) < longest(chosen))
			text.push(`Columns end at ${time(scaleOf(chosen))}, four times the median; longer ones are cut. `);
		if (shownRanks < ranks.length)
			text.push(`Steps of the ${shownRanks} slowest of ${count(ranks.length)} ranks are here. `);
		if (data.steps.every > 1)
			text.push(`Of ${count(data.steps.rows)} steps of ranks, ${count(steps.length)} are here: those of one step in ${data.steps.every}, ` +
				  `and of the ${count(data.steps.slowest)} slowest; the command shows all. `);
		text.push(`On average a step ${shownRanks < ranks.length ? "of these ranks " : ""}takes ${time(data.steps.wall_us / data.steps.rows)}. `);
		if (steps.some(row => row.step === 0))
			text.push("Step 0 is among them, so no warm-up is left out: --since step:N does it. ");
		section("Steps", [...text, command("overlap --steps")], legend(PARTS), stepChart(chosen, scaleOf(chosen)),
			...table(sheet("overlap").kinds, steps,
				 ["step", "rank", "wall", "compute", "gpu", "copy", "comm", "load", "cpu", "io", "io_unoverlapped", "idle"], "wall"));
		if (shownRanks > 1)
			section("Ranks by steps", ["Red: slower than the median of the ranks in that step; blue: faster. ", stragglers()],
				make("div", { class: "scroll wide", tabindex: "0" }, heatMap(steps)));
	}

	/* Who was the slowest of its step most often, and what that cost. */
	function stragglers() {
		const slow = ranks.filter(row => row.steps_slowest > 0).sort((a, b) => b.steps_behind - a.steps_behind).slice(0, 3);

		return slow.length ? `Most behind the median rank: ${slow.map(row => `rank ${row.rank} (${time(row.steps_behind)}, slowest of ` +
			`${count(row.steps_slowest)} step${row.steps_slowest === 1 ? "" : "s"})`).join(", ")}.` : "";
	}

	const WORK = ["kernel", "memcpy", "memset", "runtime", "driver", "sync", "cpu_op", "annotation", "step"];

	/* A row for each step, with a column for each kind of work: its self time, on the device or on the CPU. */
	function drawKinds() {
		const of = new Map(), found = new Set(), kinds = { step: "id" };

		for (const row of sheet("kinds").rows.filter(row => row.section === "compute" && row.step !== "")) {
			const key = `of_${row["args.kind"] || "span"}`, one = of.get(row.step) || { step: row.step };

			one[key] = (one[key] || 0) + (row.device ? row.self_device_time_total : row.self_cpu_time_total);
			of.set(row.step, one);
			found.add(key);
			kinds[key] = "time";
		}
		const first = WORK.map(kind => `of_${kind}`).filter(key => found.has(key));

		if (first.length > 1)
			section("Kinds of work in steps", ["Self times of all ranks and threads, added up: what ran inside of another is not in both. ",
							   data.steps.every > 1 ? "Of the steps above; the command shows all. " : "",
							   command("table --group-by step,args.kind")],
				...table(kinds, [...of.values()], ["step", ...first, ...[...found].filter(key => !first.includes(key))], "step"));
	}

	/* Both runs' steps at one scale, and what pfw compare says of them. */
	function drawCompared() {
		const compared = sheet("compare"), old = compared && sheet("before").rows.filter(row => row.type === "step");

		if (!compared)
			return;
		const runs = [["A, before", old], ["B, this run", steps]].filter(([, of]) => of.length);
		const most = Math.max(...runs.map(([, of]) => scaleOf(medianSteps(of))));

		section("Compared with the run before", [`A is ${data.run.against}, B is this run. `, cut(compared.rows.filter(row => row.section === "row")),
			command("compare A B")],
			...(runs.length ? [legend(PARTS)] : []),
			...runs.flatMap(([title, of]) => [make("p", {}, `Steps of ${title}; the top is ${time(most)}. On average ` +
				`${time(of.reduce((sum, row) => sum + row.wall, 0) / of.length)}.`), stepChart(medianSteps(of), most)]),
			...table(compared.kinds, compared.rows.filter(row => row.section === "row"),
				 ["cat", "name", "count_a", "count_b", "total_a", "total_b", "difference", "typical_a", "typical_b", "change",
				  "beside", "p", "significant"], null));
	}

	function drawSeries() {
		const bins = binsOfAll(ofType("bin")), known = SERIES.filter(([key]) => bins.some(row => row[key] !== undefined));

		if (!bins.length || !known.length)
			return;
		const first = bins[0].ts, most = Math.max(...bins.map(row => (row.io_bytes || 0) / row.dur)) || 1;
		const when = row => `at ${time(row.ts - first)}: `, of = Math.max(...bins.map(row => row.ranks));
		const which = of < ranks.length ? `the ${of} slowest of ${count(ranks.length)} ranks` : "the ranks";

		const charts = [], chart = (...drawn) => {
			charts.push(seriesChart(bins, ...drawn));
			return charts.at(-1);
		};
		const calls = Math.max(...bins.map(row => (row.io_calls || 0) / row.dur));

		section("Course over time", [`The share of the time in which something ran, on average of ${which}: the top is 100 %. `,
			command("overlap --bins 120")], legend(known),
			chart(known.map(([key, , colour]) => [row => (row[key] || 0) / row.dur / row.ranks, 1, colour]),
				    row => when(row) + known.map(([key, title]) =>
					    `${title} ${percent(100 * (row[key] || 0) / row.dur / row.ranks)}`).join(", "),
				    "Busy shares over time"));
		/* Columns of bins are in µs. */
		if (calls > 0)
			page.lastChild.append(make("p", {}, `I/O calls of ${which} by their begins; the top is ${count(calls * 1e6)} a second.`),
				chart([[row => (row.io_calls || 0) / row.dur, calls, "--io"]],
				      row => `${when(row)}${count((row.io_calls || 0) / row.dur * 1e6)} calls a second`, "I/O calls a second over time"));
		if (most > 1)
			page.lastChild.append(make("p", {}, `I/O bandwidth of ${which}, added up; the top is ${bytes(most * 1e6)}/s.`),
				chart([[row => (row.io_bytes || 0) / row.dur, most, "--io"]],
				      row => `${when(row)}${bytes((row.io_bytes || 0) / row.dur * 1e6)}/s`, "I/O bandwidth over time"));
		page.lastChild.insertBefore(zoomed(charts, first, bins.at(-1).ts + bins.at(-1).dur), charts[0]);
	}

	function drawRanks() {
		section(ranks.length > 1 ? "Ranks" : "Where the time went",
			["What ran in the time of each rank. Columns overlap. \"Alone\" is what no compute hides. ", command("overlap")],
			...table(sheet("overlap").kinds, ranks,
				 ["rank", "wall", "compute", "io", "io_unoverlapped", "gpu", "comm", "comm_unoverlapped", "copy", "load", "idle",
				  "steps_own", "steps_slowest", "io_calls", "io_bytes"],
				 ranks.some(row => row.steps_own !== null) ? "steps_own" : "wall"));
	}

	/* Of each operator, the share of its kernels' time in those that use tensor cores: from the rows of launches, if
	 * they are all here. */
	function tensorShares(launches) {
		const of = new Map();

		for (const row of launches.length < ROWS_ASKED ? launches.filter(row => row.operator) : []) {
			const [all, used] = of.get(row.operator) || [0, 0];

			of.set(row.operator, [all + row.device_time_total, used + (row.tensor_cores ? row.device_time_total : 0)]);
		}
		return new Map([...of].map(([name, [all, used]]) => [name, all ? 100 * used / all : 0]));
	}

	function drawNames() {
		const names = sheet("names"), compute = names.rows.filter(row => row.section !== "io");
		const io = names.rows.filter(row => row.section === "io"), host = compute.filter(row => !row.device);
		const kernels = compute.filter(row => row.device);
		const launches = sheet("launches").rows, tensor = tensorShares(launches);
		const shapes = sheet("shapes"), shaped = shapes.rows.filter(row => row.shape && row.shape !== "[]");

		if (host.length)
			section("Operators and spans", ["Self time is without what ran inside. ",
							tensor.size ? "Tensor cores: the share of its kernels' time in those that use them by their names. " : "",
							command("table")],
				...pies(host, ["Self CPU time", "self_cpu_time_total"], ["Self device time", "self_device_time_total"]),
				...table({ ...names.kinds, tensor_percent: "percent" },
					 host.map(row => ({ ...row, tensor_percent: tensor.get(row.name) })),
					 ["name", "count", "self_cpu_time_total", "self_cpu_percent", "cpu_time_total", "cpu_time", "min", "max",
					  "self_device_time_total", "device_time_total", "tensor_percent", "flops"],
					 host.some(row => row.self_device_time_total) ? "self_device_time_total" : "self_cpu_time_total"));
		if (shaped.length)
			section("Operators by input shapes", [cut(shapes.rows), command("table --group-by shape")], ...table(shapes.kinds, shaped,
				["name", "shape", "count", "self_device_time_total", "device_time_total", "self_cpu_time_total", "cpu_time_total"],
				shaped.some(row => row.self_device_time_total) ? "self_device_time_total" : "self_cpu_time_total"));
		if (kernels.length)
			section("GPU kernels and copies", [command("table")],
				...pies(kernels, ["Device time", "device_time_total"]), ...table(names.kinds, kernels,
				["name", "tensor_cores", "count", "device_time_total", "total_device_percent", "device_time", "max", "min"],
				"device_time_total"));
		if (sheet("launches").rows.length)
			section("GPU kernels by launch",
				["Registers are those of a thread, bytes of shared memory those of a block. Tensor cores: by the kernel's name. ",
				 cut(launches), command("table --group-by name,operator,args.grid,args.block")], ...table(sheet("launches").kinds, sheet("launches").rows,
				["name", "operator", "args.grid", "args.block", "args.registers", "args.static_smem", "args.dynamic_smem", "args.occupancy",
				 "args.blocks_per_sm", "tensor_cores", "count",
				 "device_time_total", "device_time", "max", "min"], "device_time_total"));
		if (io.length)
			section("I/O calls", [command("table")], ...table(names.kinds, io,
				["name", "total", "total_percent", "count", "avg", "p50", "p95", "max", "bytes", "mean_size", "bandwidth"], "total"));
	}

	/* Work that no operator reported is not 0. */
	function drawFlops() {
		const flops = sheet("flops"), rows = flops.rows.filter(row => typeof row.flops_per_second === "number");

		if (!rows.length) {
			if (compute)
				section("FLOP/s", ["-: no operator of a step says its FLOPs; torch.profiler's with_flops=True records them."]);
			return;
		}
		section("FLOP/s", ["Of each step, the FLOPs of its operators by its time on all ranks. ",
				   rows.some(row => typeof row.peak_percent === "number") ? "" : "The peak is not known: --peak-tflops says it. ",
				   command("table --group-by step --columns flops --peak-tflops N")],
			...table(flops.kinds, rows, ["step", "self_flops", "flops_per_second", "peak_percent"], "step"));
	}

	function drawFiles() {
		const files = sheet("files"), rows = files.rows.filter(row => row.section === "io");
		const patterns = sheet("patterns"), each = patterns.rows.filter(row => row.section === "file");

		if (rows.length)
			section("Files", [cut(rows), command("table --group-by fname")], ...table(files.kinds, rows,
				["fname", "total", "total_percent", "count", "avg", "max", "bytes", "mean_size", "bandwidth"], "total"));
		if (each.length)
			section("How files are used", ["Shares are of the reads and writes of the file. ", cut(each), command("patterns")],
				...table(patterns.kinds, each,
					 ["fname", "opens", "reads", "read_bytes", "writes", "written_bytes", "consecutive", "random", "small",
					  "unaligned", "metadata_calls", "metadata_us", "data_us"], "data_us"));
	}

	/* The allocator's course in time of a process on a device. */
	function memoryChart(of) {
		const keys = [["peak_bytes", "Allocated", "--io"], ["reserved_bytes", "Reserved", "--rest"]]
			.filter(([key]) => of.some(row => row[key] !== null));
		const most = Math.max(...of.flatMap(row => keys.map(([key]) => row[key] || 0))) || 1, first = of[0].ts;

		return [make("p", {}, `${of[0].device}${of[0].rank === null ? "" : `, rank ${of[0].rank}`}, pid ${of[0].pid}; ` +
			     `the top is ${bytes(most)}.`),
			legend(keys),
			seriesChart(of, keys.map(([key, , colour]) => [row => row[key] || 0, most, colour]),
				    row => `at ${time(row.ts - first)}: ` +
					   keys.map(([key, title]) => `${title} ${figure("bytes", row[key])}`).join(", "),
				    "Memory over time")];
	}

	const POOLS_SHOWN = 4;

	function drawMemory() {
		const memory = sheet("memory"), of = name => memory.rows.filter(row => row.section === name);
		const pools = of("device").sort((a, b) => b.peak_bytes - a.peak_bytes), course = of("time");
		const pool = row => ["rank", "pid", "device"].map(key => row[key]).join(" ");
		const columns = (title, rows, keys, by, kinds) => rows.length
			? [make("h3", {}, title), ...table({ ...memory.kinds, ...kinds }, rows, keys, by)] : [];
		const start = Math.min(...course.map(row => row.ts));

		if (!pools.length)
			return;
		section("Memory", ["Allocated: the greatest sum of the allocations of each slice of time; reserved: what the allocator holds. ",
				   of("block").length < ROWS_ASKED ? "" : `Of the blocks the ${count(ROWS_ASKED)} greatest are here. `,
				   "Times are from the first event of memory. ", command(`memory --bins 120 --blocks ${ROWS_ASKED}`)],
			...pools.slice(0, POOLS_SHOWN).map(one => course.filter(row => pool(row) === pool(one)))
				.filter(rows => rows.length).flatMap(memoryChart),
			...columns("Devices", pools, ["rank", "pid", "device", "allocations", "allocated_bytes", "frees", "freed_bytes",
						      "peak_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "end_bytes", "unfreed",
						      "unfreed_bytes"], "peak_bytes"),
			...columns("Who allocates", of("owner"), ["name", "allocations", "allocated_bytes", "greatest_bytes", "unfreed",
								  "unfreed_bytes"], "allocated_bytes"),
			...columns("Steps", of("step"), ["step", "rank", "pid", "device", "allocations", "growth_bytes", "peak_bytes",
							 "end_bytes"], "growth_bytes"),
			...columns("Blocks", of("block").map(row => ({ ...row, since: row.ts - start, freed: row.freed_ts === null ? null : row.freed_ts - start })),
				   ["name", "rank", "pid", "device", "addr", "bytes", "since", "freed", "dur", "step"], "bytes", { since: "time", freed: "time" }),
			...columns("Not freed", of("unfreed"), ["name", "rank", "pid", "device", "addr", "bytes", "step"], "bytes"));
	}

	/* The picture is in the page already, with its script; it fits its width when the window changes. */
	function drawFlame() {
		const flame = document.getElementById("flame");

		if (!flame.firstElementChild) {
			section("Flame graph", ["Stacks are in no index, and this run is too large to read it whole each time: ",
						command("export --format svg -o flame.svg"), " draws it."]);
			return;
		}
		section("Flame graph", ["A click or Enter zooms. ", command("export --format svg --merge")], flame);
		flame.hidden = false;
		window.dispatchEvent(new Event("resize"));
	}

	page.replaceChildren();
	drawHead();
	drawFindings();
	drawSteps();
	drawKinds();
	drawCompared();
	drawSeries();
	drawRanks();
	drawFlops();
	drawNames();
	drawFiles();
	drawMemory();
	drawFlame();
	page.append(make("p", {}, "All figures are those of the commands that are named with them."));
	page.dataset.ready = "yes";
})();
