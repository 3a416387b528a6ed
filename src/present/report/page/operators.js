// operators.js - the averages, as `mtprof stats --json` has them: sorted, filtered, each with its calls.

const dimmed = (text) => el("span", { className: "none" }, text);
const asTime = (value) => value === 0 ? dimmed("0") : microseconds(value), asCount = (value) => grouped(value), asBytes = (value) => value === 0 ? "" : bytes(value);
const asFlops = (value) => value === 0 ? "" : value >= 1e9 ? (value / 1e9).toFixed(2) + " G" : value >= 1e6 ? (value / 1e6).toFixed(2) + " M" : grouped(value);
// key, title, what it means, format, whether it is shown only if some row has it
const COLUMNS = [
  ["self_cpu_time_total", "Self CPU", "CPU time in the op itself, of all calls", asTime], ["cpu_time_total", "CPU total", "with what it calls", asTime],
  ["cpu_time", "CPU mean", "of one call, with what it calls", asTime], ["self_device_time_total", "Self device", "device time of the work it launched itself", asTime, true],
  ["device_time_total", "Device total", "with what it calls", asTime, true], ["count", "Calls", "", asCount], ["min", "Min", "the shortest call", asTime],
  ["p50", "Median", "", asTime], ["p99", "p99", "99 of 100 calls are shorter", asTime], ["max", "Max", "the longest call", asTime],
  ["self_cpu_memory_usage", "Self CPU mem", "allocated minus freed by the op itself", asBytes, true], ["self_device_memory_usage", "Self device mem", "", asBytes, true],
  ["flops", "FLOPs", "of all calls", asFlops, true]];
const ROWS_AT_ONCE = 300, STACK_FRAMES = 5; // as in src/present/report/report.c

class Operators {
  constructor(trace, root, all) {
    Object.assign(this, { trace, root, all, by: "name", sort: "self_cpu_time_total", down: true, query: "", most: ROWS_AT_ONCE, open: null });
    const choices = [["name", "By name"], ["shape", "By shape"], ["stack", "By stack"]].filter(([key]) => all[key]);
    this.search = el("input", { type: "search", placeholder: "Filter  ( / )", "aria-label": "Filter by name", oninput: debounce(100, () => { this.query = this.search.value; this.most = ROWS_AT_ONCE; this.fill(); this.remember(); }) });
    this.buttons = choices.map(([key, text]) => el("button", { className: "small", "aria-pressed": String(key === this.by), onclick: () => { this.by = key; this.open = null; this.fill(); this.remember(); } }, text));
    this.choices = choices.map(([key]) => key);
    this.note = el("span", { className: "note", "aria-live": "polite" });
    this.head = el("thead");
    this.body = el("tbody");
    this.more = el("button", { className: "small", style: { marginTop: "8px" }, onclick: () => { this.most += 1000; this.fill(); } }, "Show more");
    root.append(el("div", { className: "tools" }, choices.length > 1 && this.buttons, this.search, this.note),
      el("div", { className: "scroll wide", tabIndex: 0, role: "region", "aria-label": "Averages" }, el("table", { id: "operators" }, this.head, this.body)), this.more);
    this.fill();
  }

  rows() {
    const words = this.query.toLowerCase(), key = this.sort;
    const rows = this.all[this.by].filter((row) => !words || row.key.toLowerCase().includes(words) || row.input_shapes.toLowerCase().includes(words) || row.stack.some((frame) => frame.toLowerCase().includes(words)));
    const value = key === "key" ? (row) => row.key : (row) => row[key];
    return rows.sort((a, b) => (value(a) < value(b) ? 1 : value(a) > value(b) ? -1 : 0) * (this.down ? 1 : -1));
  }

  fill() {
    const rows = this.rows(), all = this.all[this.by];
    const columns = COLUMNS.filter(([key, , , , isRare]) => !isRare || all.some((row) => row[key] !== 0));
    this.buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(this.choices[i] === this.by)));
    const heading = (key, title, note, name) => el("th", { className: name, "aria-sort": this.sort === key ? (this.down ? "descending" : "ascending") : undefined, title: note },
      el("button", { onclick: () => { this.down = this.sort === key ? !this.down : key !== "key"; this.sort = key; this.fill(); this.remember(); } }, title + (this.sort === key ? (this.down ? " \u25be" : " \u25b4") : "")));
    this.head.replaceChildren(el("tr", {}, heading("key", "Name", "", "name"), this.by === "shape" && el("th", { className: "name" }, "Input shapes"), this.by === "stack" && el("th", { className: "name" }, "Called from"), columns.map(([key, title, note]) => heading(key, title, note))));
    const top = all.reduce((most, row) => Math.max(most, row.self_cpu_time_total), 0);
    this.body.replaceChildren(...rows.slice(0, this.most).flatMap((row) => this.row(row, columns, top)));
    const count = this.all[this.by + "_count"];
    this.note.textContent = plural(rows.length, "row") + (count > all.length ? " of the " + grouped(all.length) + " largest; there are " + grouped(count) : rows.length < all.length ? " of " + grouped(all.length) : "");
    this.more.hidden = rows.length <= this.most;
    if (rows.length === 0) this.body.append(el("tr", {}, el("td", { className: "name", colSpan: columns.length + 2 }, all.length ? "No row matches." : "No ops were recorded.")));
  }

  row(row, columns, top) {
    const isOpen = this.open === row;
    const made = el("tr", { className: isOpen ? "open" : "", "data-key": row.key },
      el("td", { className: "name", title: row.key }, el("button", { "aria-expanded": String(isOpen), onclick: () => { this.open = isOpen ? null : row; this.fill(); this.remember(); } }, (row.device_type === "DeviceType.CPU" ? "" : "\u25a3 ") + (row.key || "(no name)"))),
      this.by === "shape" && el("td", { className: "name", title: row.input_shapes }, row.input_shapes), this.by === "stack" && el("td", { className: "name", title: row.stack.join("\n") }, row.stack[0] ?? ""),
      columns.map(([key, , , format]) => el("td", { "data-value": row[key], className: key === "self_cpu_time_total" ? "shared" : "" }, key === "self_cpu_time_total" && shareBar(row[key], top), format(row[key]))));
    return isOpen ? [made, el("tr", { className: "detail" }, el("td", { colSpan: columns.length + 2 }, this.detail(row)))] : [made];
  }

  /** A row's calls: how long they took, and when. */
  detail(row) {
    const histogram = el("canvas", { role: "img", "aria-label": "How long its calls took" }), scatter = el("canvas", { role: "img", "aria-label": "Its calls over time", style: { cursor: "pointer" } });
    const box = el("div", {}, el("div", { className: "tools" }, el("button", { className: "small", onclick: () => openPage("timeline", { q: row.key }) }, "Find in timeline"),
      el("span", { className: "note" }, row.stack.length ? "from " + row.stack.join(" \u2190 ") : "")),
      el("div", { className: "two" }, el("figure", {}, histogram, el("figcaption", {}, "Calls by duration (on a logarithmic scale, ten bars to a factor of ten)")), el("figure", {}, scatter, el("figcaption", {}, "Duration of each call over time; click to see one"))));
    callsOf(this.trace, row, this.by).then(({ places, spans, isAll }) => {
      if (!box.isConnected) return;
      if (isAll) box.append(el("p", { className: "note" }, "Shown are all spans of this name: which of them had this " + this.by + " is not in the page."));
      else if (places.length !== row.count) box.append(el("p", { className: "note" }, places.length < row.count && this.trace.head.left_out ? grouped(places.length) + " of " + plural(row.count, "call") + " are in this page." : "Shown are " + plural(places.length, "span") + " of this name."));
      const around = box.closest(".scroll"), watch = new ResizeObserver(() => { if (box.isConnected) box.style.width = Math.max(260, around.clientWidth - 28) + "px"; else watch.disconnect(); });
      box.style.width = Math.max(260, around.clientWidth - 28) + "px"; // what is wider than the window must not widen this
      watch.observe(around);
      repaint(histogram, () => drawHistogram(histogram, places.map((i) => spans.dur[i])));
      let nearest = () => -1;
      repaint(scatter, () => { nearest = drawScatter(scatter, places, spans, this.trace.head.duration); });
      scatter.addEventListener("click", (event) => { const place = nearest(event.offsetX, event.offsetY); if (place >= 0) openPage("timeline", { s: place, t: around(spans, place) }); });
    });
    return box;
  }

  remember() { setHash("operators", { q: this.query || undefined, by: this.by === "name" ? undefined : this.by, o: this.open ? this.all[this.by].indexOf(this.open) : undefined, sort: (this.down ? "-" : "") + this.sort }); }

  restore(state) {
    if (state.q !== undefined) this.search.value = this.query = state.q;
    if (this.choices.includes(state.by)) this.by = state.by;
    const sort = (state.sort ?? "").replace(/^-/, "");
    if (sort === "key" || COLUMNS.some(([key]) => key === sort)) this.down = state.sort.startsWith("-"), this.sort = sort;
    this.open = this.all[this.by][state.o] ?? null;
    if (this.open) this.most = Math.max(this.most, this.rows().indexOf(this.open) + 1);
    this.fill();
    this.body.querySelector("tr.open")?.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    if (event.key !== "/") return false;
    event.preventDefault();
    this.search.focus();
    return true;
  }
}

/** The spans that a row of the averages is about: of its name, on the host or on devices and, where rows are told apart by them, of its shapes or stack. */
async function callsOf(trace, row, by) {
  const [spans, labels] = await Promise.all([trace.spans(), trace.labels()]), details = by === "name" ? null : await trace.details(), isDevice = row.device_type !== "DeviceType.CPU", places = [];
  const isKey = row.key === "ProfilerStep*" ? (name) => name.startsWith("ProfilerStep#") : (name) => name === row.key;
  const wanted = labels.map((label) => isKey(label.name)), onDevice = trace.head.rows.map((one) => one.device);
  const plain = (text) => text === "[]" ? "" : text.replaceAll(" ", ""), shape = plain(row.input_shapes), shapes = details?.shapes.map(([dims]) => plain(dims) === shape);
  const isStack = (place) => { const frames = framesOf(spans, labels, details, place, STACK_FRAMES); return frames.length === row.stack.length && row.stack.every((frame, i) => frames[i] === frame); };
  for (let i = 0; i < spans.count; i++)
    if (wanted[spans.label[i]] && onDevice[spans.row[i]] === isDevice && (by !== "shape" || (shapes[(details.shape?.[i] ?? 0) - 1] ?? shape === "")) && (by !== "stack" || isStack(i))) places.push(i);
  return places.length === 0 && by !== "name" ? { ...await callsOf(trace, row, "name"), isAll: true } : { places, spans };
}

/** The innermost frames of a span: its recorded stack or, without one, the Python functions around it. */
function framesOf(spans, labels, details, place, most) {
  const recorded = stackOf(details, details.stack?.[place] ?? 0);
  if (recorded.length > 0) return recorded.slice(0, most);
  const frames = [];
  for (let at = spans.parent[place]; at >= 0 && frames.length < most; at = spans.parent[at]) {
    const label = labels[spans.label[at]];
    if (label.category === "python_function") frames.push(label.name);
  }
  return frames;
}

const shareBar = (value, top) => el("span", { className: "share" }, el("i", { style: { width: 100 * share(value, top) + "%" } }));
const around = (spans, place) => Math.round(spans.start[place] - 2 * spans.dur[place] - 100) + "," + Math.round(spans.start[place] + 3 * spans.dur[place] + 100);

function drawHistogram(canvas, durations) {
  const positive = durations.filter((ns) => ns > 0), low = positive.reduce((a, b) => Math.min(a, b), Infinity), high = positive.reduce((a, b) => Math.max(a, b), 1);
  const ROUND = { 0: 1, 3: 2, 7: 5 }, label = (tenth) => { const of = (tenth % 10 + 10) % 10; return of in ROUND ? roundTime(ROUND[of] * 10 ** Math.floor(tenth / 10)) : ""; };
  const first = Math.floor(Math.log10(Math.max(1, low === Infinity ? 1 : low)) * 10), last = Math.max(first + 5, Math.ceil(Math.log10(high) * 10));
  const counts = new Array(last - first + 1).fill(0);
  for (const ns of durations) counts[ns > 0 ? Math.min(counts.length - 1, Math.floor(Math.log10(ns) * 10) - first) : 0]++;
  drawBars(canvas, { top: counts.reduce((a, b) => Math.max(a, b), 1) * 1.05, format: (count) => count % 1 ? "" : grouped(count), height: 150, isEdge: true,
    bars: counts.map((count, i) => ({ label: label(first + i), parts: [{ value: count, colour: PALETTE[0] }] })) });
}

function drawScatter(canvas, places, spans, whole) {
  const { context, width, height } = prepare(canvas, 150), shown = theme(), left = 64, bottom = 24, top = places.reduce((most, i) => Math.max(most, spans.dur[i]), 1) * 1.05;
  context.fillStyle = shown.back;
  context.fillRect(0, 0, width, height);
  context.font = FONT;
  context.textBaseline = "middle";
  const y = (ns) => 6 + (height - bottom - 6) * (1 - ns / top), x = (at) => left + at / whole * (width - left - 6);
  const { ticks, step } = roundTicks(0, top, 4), texts = tickTexts(ticks, step);
  ticks.forEach((tick, i) => {
    context.fillStyle = shown.line;
    context.fillRect(left, Math.round(y(tick)), width - left, 1);
    context.fillStyle = shown.dim;
    context.textAlign = "right";
    context.fillText(texts[i], left - 6, y(tick));
  });
  drawAxis(context, { x: left, y: height - bottom + 4, width: width - left - 6, height: bottom - 6, from: 0, to: whole });
  context.fillStyle = PALETTE[1];
  const seen = new Uint8Array(width * height);
  for (const i of places) {
    const px = Math.round(x(spans.start[i])), py = Math.round(y(spans.dur[i]));
    if (seen[py * width + px]) continue;
    seen[py * width + px] = 1;
    context.fillRect(px - 1, py - 1, 3, 3);
  }
  return (atX, atY) => {
    let best = -1, distance = 14 ** 2;
    for (const i of places) {
      const d = (x(spans.start[i]) - atX) ** 2 + (y(spans.dur[i]) - atY) ** 2;
      if (d < distance) distance = d, best = i;
    }
    return best;
  };
}
