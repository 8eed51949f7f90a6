/* Zoom, search and keys of a flame graph (pfw export --format svg).  A frame is
 * <g data-x data-w data-y> with a title, a rect and a text; data-x and data-w are shares of the whole, and
 * the first line of the title is the name. */
(function () {
	"use strict";
	const svg = document.querySelector("svg.pfw-flame");
	const frames = Array.from(svg.querySelectorAll("g[data-w]"));
	const status = svg.querySelector(".status");
	const LETTER = 7.25, MATCHED = "matched", NEAR = 1e-8;
	let zoomed = frames[0], current = frames[0];

	const number = (frame, key) => Number(frame.dataset[key]);
	const title = frame => frame.querySelector("title").textContent;
	const name = frame => title(frame).split("\n")[0];
	const contains = (outer, inner) =>
		number(outer, "y") <= number(inner, "y") && number(outer, "x") <= number(inner, "x") + NEAR &&
		number(inner, "x") + number(inner, "w") <= number(outer, "x") + number(outer, "w") + NEAR;

	function place(frame, x, width) {
		const rect = frame.querySelector("rect"), text = frame.querySelector("text");
		const room = Math.floor((width - 6) / LETTER), full = name(frame);

		rect.setAttribute("x", x.toFixed(2));
		rect.setAttribute("width", Math.max(width - 0.5, 0.2).toFixed(2));
		text.setAttribute("x", (x + 3).toFixed(2));
		text.textContent = room < 3 ? "" : full.length <= room ? full : full.slice(0, room - 1) + "…";
	}

	function draw() {
		const width = svg.clientWidth || 1200, x0 = number(zoomed, "x"), share = number(zoomed, "w");

		for (const frame of frames) {
			const caller = contains(frame, zoomed), inside = contains(zoomed, frame);

			frame.style.display = caller || inside ? "" : "none";
			frame.classList.toggle("caller", caller && frame !== zoomed);
			if (caller && !inside)
				place(frame, 0, width);
			else if (inside)
				place(frame, (number(frame, "x") - x0) / share * width, number(frame, "w") / share * width);
		}
	}

	function say(frame) {
		status.textContent = title(frame).replace("\n", ": ");
	}

	function zoom(frame) {
		zoomed = frame;
		draw();
		say(frame);
	}

	function focus(frame) {
		if (!frame)
			return;
		current.setAttribute("tabindex", "-1");
		current = frame;
		current.setAttribute("tabindex", "0");
		current.focus();
	}

	/* The next visible frame up, down, or beside `from`. */
	function neighbour(from, key) {
		const shown = frames.filter(frame => frame.style.display !== "none");
		const y = number(from, "y"), x = number(from, "x");
		const row = shown.filter(frame => number(frame, "y") === y);

		if (key === "ArrowUp")
			return shown.find(frame => number(frame, "y") === y - 1 && contains(frame, from));
		if (key === "ArrowDown")
			return shown.find(frame => number(frame, "y") === y + 1 && contains(from, frame));
		return key === "ArrowLeft" ? row.filter(frame => number(frame, "x") < x).pop()
					   : row.find(frame => number(frame, "x") > x);
	}

	/* Mark the frames whose name has the text, and say their share; frames inside marked ones are in it. */
	function search() {
		const wanted = prompt("Frames whose name contains:", "");
		let share = 0, end = -1;

		for (const frame of frames)
			frame.classList.toggle(MATCHED, !!wanted && name(frame).includes(wanted));
		if (!wanted)
			return;
		frames.filter(frame => frame.classList.contains(MATCHED))
			.sort((a, b) => number(a, "x") - number(b, "x") || number(b, "w") - number(a, "w"))
			.forEach(frame => {
				if (number(frame, "x") < end - NEAR)
					return;
				share += number(frame, "w");
				end = number(frame, "x") + number(frame, "w");
			});
		status.textContent = `"${wanted}": ${(100 * share).toFixed(2)} % of all`;
	}

	function key(event) {
		if (event.key === "Escape") {
			zoom(frames[0]);
		} else if (event.key === "/" || (event.key === "Enter" && event.target.matches(".search"))) {
			event.preventDefault();
			search();
		} else if (event.key === "Enter") {
			zoom(current);
		} else if (event.key.startsWith("Arrow")) {
			event.preventDefault();
			focus(neighbour(current, event.key));
		}
	}

	for (const frame of frames) {
		frame.setAttribute("tabindex", "-1"); /* arrows go from frame to frame; Tab reaches one of them */
		frame.addEventListener("click", () => { focus(frame); zoom(frame); });
		frame.addEventListener("mouseover", () => say(frame));
		frame.addEventListener("focus", () => say(frame));
	}
	svg.querySelector(".search").addEventListener("click", search);
	svg.addEventListener("keydown", key);
	svg.removeAttribute("viewBox");
	svg.setAttribute("width", "100%");
	frames[0].setAttribute("tabindex", "0");
	window.addEventListener("resize", draw);
	draw();
})();
