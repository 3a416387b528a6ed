// timeline.js - all threads and streams over time, on one canvas. Only what is visible is drawn: from afar by the levels that the
// report brought along, near by the spans themselves, of which those within one pixel are skipped by searching.

const LEVEL = 16, HEAD = 20, AXIS = 24, MAP = 30, CURVE = 62, CELLS = 4096, GAP = 8;

class Timeline {
  constructor(trace, root) {
    this.trace = trace;
    this.whole = Math.max(trace.head.duration, 100);
    this.from = -.01 * this.whole;
    this.to = 1.01 * this.whole;
    this.scroll = 0;
    this.selected = -1;
    this.range = null;
    this.query = "";
    this.matches = null;
    this.showArrows = true;
    this.closed = new Set();
    this.build(root);
    this.load();
  }

  // -------------------------------------------------------------------------------------------- the page

  build(root) {
    this.canvas = el("canvas", { tabIndex: 0, "aria-label": "Timeline. Keys: w and s zoom, a and d move, / searches, ? shows all keys", role: "img" });
    this.search = el("input", { type: "search", placeholder: "Search names  ( / )", "aria-label": "Search names", value: this.query,
      oninput: debounce(120, () => this.find(this.search.value)), onkeydown: (event) => this.searchKey(event) });
    this.count = el("span", { className: "note", "aria-live": "polite" });
    this.arrows = el("button", { className: "small", "aria-pressed": "true", title: "Arrows of the selected span: launches, forward to backward",
      onclick: () => { this.showArrows = !this.showArrows; this.arrows.setAttribute("aria-pressed", this.showArrows); this.draw(); } }, "Arrows");
    const button = (text, title, act) => el("button", { className: "small", title, onclick: () => { act(); this.canvas.focus(); } }, text);
    this.side = el("aside", { className: "side", hidden: true, "aria-label": "Selection" });
    root.append(
      el("div", { className: "bar-top" }, this.search, button("\u2039", "Previous match (N)", () => this.nextMatch(-1)),
        button("\u203a", "Next match (n)", () => this.nextMatch(1)), this.count, el("span", { className: "grow" }),
        this.arrows, button("Whole", "Show the whole trace (0)", () => this.show(0, this.whole)), button("\u2212", "Zoom out (s)", () => this.zoom(1.6)),
        button("+", "Zoom in (w)", () => this.zoom(1 / 1.6))),
      el("div", { className: "board" }, el("div", { className: "stage" }, this.canvas), this.side));
    this.frames = this.canvas.frames = []; // how long the last ones took to draw: bench/bench_report.py reads it
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  async load() {
    this.count.textContent = "Reading the spans\u2026";
    this.labels = await this.trace.labels();
    this.levels = await this.trace.levels();
    this.layout();
    this.draw();
    this.counters = await this.trace.counters();
    this.memory = await this.trace.memory();
    this.spans = await this.trace.spans();
    this.map = undefined;
    this.links = await this.trace.links();
    this.layout();
    this.count.textContent = "";
    if (this.query) this.find(this.query);
    if (this.wanted !== undefined) this.select(this.wanted, false);
    if (this.range) this.sum();
    this.draw();
    this.ready = true;
  }

  // ---------------------------------------------------------------------------------------------- layout

  /** Rows in the order of processes and threads; the ones of a process follow a heading. */
  layout() {
    const marks = marksByTrack(this.counters);
    const rows = this.trace.head.rows.map((row, index) => ({ ...row, index })).filter((row) => row.count > 0 || (row.lane === 0 && marks.has(row.track)));
    const main = this.trace.head.pid, group = (row) => (row.device ? "device " : "") + row.pid;
    const most = new Map();
    for (const row of rows) most.set(group(row), (most.get(group(row)) ?? 0) + row.count);
    const order = (row) => [isWindow(row) ? 1e12 : row.processSort ?? (row.device ? 1e6 : row.pid === main ? -1 : row.pid.startsWith("-") ? 1e5 : 0), row.device ? 1 : 0, group(row), row.tid === row.pid ? 0 : 1,
      row.sort ?? 0, row.track, row.lane];
    rows.sort((a, b) => {
      const x = order(a), y = order(b);
      for (let i = 0; i < x.length; i++) if (x[i] !== y[i]) return typeof x[i] === "number" && typeof y[i] === "number" ? x[i] - y[i] : String(x[i]) < String(y[i]) ? -1 : 1;
      return 0;
    });
    this.items = [];
    let y = 0, last = null;
    for (const row of rows) {
      const now = group(row);
      if (now !== last) this.items.push({ kind: "process", y: y += last === null ? 0 : GAP, height: HEAD, text: processName(row) }), y += HEAD;
      last = now;
      const isClosed = this.closed.has(row.index), height = HEAD + (isClosed ? 1 : row.depth) * LEVEL + 4;
      this.items.push({ kind: "row", row, y, height, text: rowName(row), isClosed, marks: row.lane === 0 ? marks.get(row.track) : undefined });
      y += height;
    }
    const curves = [...memoryCurves(this.memory), ...counterCurves(this.counters)];
    for (const curve of curves) {
      this.items.push({ kind: "curve", y, height: CURVE, text: curve.name, curve });
      y += CURVE;
    }
    this.tall = y + 12;
  }

  // --------------------------------------------------------------------------------------------- drawing

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paint(); });
  }

  x(at) { return (at - this.from) * this.scale; }
  at(x) { return this.from + x / this.scale; }

  paint() {
    if (!this.items || !this.canvas.isConnected || this.canvas.offsetParent === null) return;
    const began = performance.now(), { context, width, height } = prepare(this.canvas), shown = theme();
    Object.assign(this, { context, width, height, scale: width / (this.to - this.from) });
    this.scroll = Math.max(0, Math.min(this.scroll, this.tall - (height - MAP - AXIS)));
    context.fillStyle = shown.back;
    context.fillRect(0, 0, width, height);
    this.paintSteps();
    drawAxis(context, { x: 0, y: MAP, width, height: AXIS, from: this.from, to: this.to, grid: height });
    context.save();
    context.beginPath();
    context.rect(0, MAP + AXIS, width, height - MAP - AXIS);
    context.clip();
    for (const item of this.items) {
      const y = MAP + AXIS + item.y - this.scroll;
      if (y + item.height < MAP + AXIS || y > height) continue;
      if (item.kind === "row") this.paintRow(item, y);
      else if (item.kind === "curve") paintCurve(this, item.curve, y);
      this.paintHeading(item, y);
      if (item.marks) paintMarks(this, item.marks, y);
    }
    if (this.items.length === 0 && this.spans) this.paintNothing();
    if (this.showArrows && this.selected >= 0) this.paintArrows();
    context.restore();
    this.paintRange();
    this.paintMap();
    this.frames.push(performance.now() - began);
    if (this.frames.length > 1000) this.frames.splice(0, 500);
  }

  paintNothing() {
    const { context } = this;
    context.font = FONT;
    context.textAlign = "center";
    context.fillStyle = theme().dim;
    ["Nothing was recorded:", "no spans, no marks, no counters, no memory."].forEach((text, i) => context.fillText(text, this.width / 2, MAP + AXIS + 40 + 16 * i));
    context.textAlign = "left";
  }

  paintHeading(item, y) {
    const { context } = this, shown = theme(), isProcess = item.kind === "process";
    context.font = isProcess ? "600 " + FONT : FONT;
    context.textBaseline = "middle";
    context.textAlign = "left";
    const text = (item.kind === "row" ? (item.isClosed ? "\u25b8 " : "\u25be ") : "") + item.text;
    context.fillStyle = isProcess ? shown.panel : shown.back;
    context.globalAlpha = .85;
    context.fillRect(0, y, isProcess ? this.width : context.measureText(text).width + 14, HEAD - 2);
    context.globalAlpha = 1;
    context.fillStyle = isProcess ? shown.text : shown.dim;
    context.fillText(text, 6, y + HEAD / 2);
  }

  /** From afar, where more than one cell falls on a pixel, by cells; else by spans. */
  paintRow(item, y) {
    const lines = this.spans ? this.spans.lines[item.row.index] : null, levels = this.levels[item.row.index];
    const cell = this.whole / CELLS * this.scale;
    const most = item.isClosed ? 1 : item.row.depth;
    this.context.font = FONT;
    this.context.textBaseline = "middle";
    for (let depth = 0; depth < most; depth++) {
      const top = y + HEAD + depth * LEVEL;
      if (top + LEVEL < MAP + AXIS || top > this.height) continue;
      if (levels[depth] && (!lines || (cell <= 1.01 && lines[depth].length > 3 * this.width))) this.paintCells(levels[depth], top);
      else if (lines) this.paintLine(lines[depth], top);
    }
  }

  paintCells(line, y) {
    const { context } = this, step = this.whole / CELLS;
    const first = Math.max(0, Math.floor(this.from / step)), last = Math.min(CELLS - 1, Math.ceil(this.to / step));
    const perPixel = Math.max(1, Math.floor(1 / (step * this.scale)));
    for (let cell = first; cell <= last; cell += perPixel) {
      let cover = 0, best = 0, label = 0;
      for (let i = cell; i < cell + perPixel && i <= last; i++) {
        cover += line.cover[i];
        if (line.cover[i] > best) best = line.cover[i], label = line.label[i];
      }
      if (label === 0) continue;
      let end = cell + perPixel;                             // a run of full cells of one label is one rectangle
      if (best === 255) while (end <= last && line.cover[end] === 255 && line.label[end] === label) end++;
      const x = this.x(cell * step);
      context.globalAlpha = best === 255 ? 1 : .25 + .75 * Math.min(1, cover / (255 * perPixel));
      context.fillStyle = this.colour(label - 1);
      context.fillRect(x, y, Math.max(1, this.x(end * step) - x), LEVEL - 1);
      cell = end - perPixel;
    }
    context.globalAlpha = 1;
  }

  paintLine(line, y) {
    const { start, dur, label } = this.spans, { context, from, to, scale, width } = this;
    let i = firstEndingAfter(line, start, dur, from);
    for (; i < line.length; i++) {
      const place = line[i], at = start[place];
      if (at > to) break;
      const x = (at - from) * scale, wide = dur[place] * scale;
      context.fillStyle = place === this.selected ? theme().select : this.colour(label[place]);
      if (wide < 1) {
        context.fillRect(Math.floor(x), y, 1, LEVEL - 1);
        const next = skipTo(line, start, i, from + (Math.floor(x) + 1) / scale);
        i = next - 1 > i && dur[line[next - 1]] * scale >= 1 ? next - 2 : next - 1; // the last one in a pixel may be long
        continue;
      }
      const left = Math.max(x, -1), right = Math.min(x + wide, width + 1);
      context.fillRect(left, y, Math.max(1, right - left - (wide > 3 ? .7 : 0)), LEVEL - 1);
      if (right - left > 22) {
        const text = fitted(context, this.labels[label[place]].name, right - Math.max(left, 0) - 8);
        if (text) { context.fillStyle = "#16181d"; context.fillText(text, Math.max(left, 0) + 4, y + LEVEL / 2); }
      }
      if (this.spans.flags[place] & 1) { context.fillStyle = theme().warn; context.fillRect(right - 3, y, 3, LEVEL - 1); }
    }
  }

  colour(label) {
    if (this.matches && !this.matches[label]) return theme().line;
    return this.labels[label].colour;
  }

  paintSteps() {
    const { context, height } = this, shown = theme();
    const steps = this.trace.head.steps.steps ?? [];
    steps.forEach((step, i) => {
      if (step.step === null) return;
      const from = step.start_us * 1e3, x = this.x(from), right = this.x(from + step.wall_us * 1e3);
      if (right < 0 || x > this.width || right - x < 12) return;
      context.fillStyle = shown.panel;
      if (i % 2 === 0) context.fillRect(x, MAP + AXIS, right - x, height);
    });
  }

  paintRange() {
    if (!this.range) return;
    const { context, height } = this, [from, to] = [Math.min(...this.range), Math.max(...this.range)], x = this.x(from), wide = this.x(to) - x;
    context.fillStyle = theme().accent;
    context.globalAlpha = .14;
    context.fillRect(x, MAP, wide, height - MAP);
    context.globalAlpha = 1;
    context.fillRect(x, MAP, 1, height);
    context.fillRect(x + wide, MAP, 1, height);
    context.font = "600 " + FONT;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = theme().accent;
    if (wide > 60) context.fillText(time(to - from), x + wide / 2, MAP + AXIS / 2);
    context.textAlign = "left";
  }

  /** The whole trace, small, with the visible part marked. */
  paintMap() {
    const { context, width } = this, shown = theme(), scale = width / this.whole;
    context.fillStyle = shown.panel;
    context.fillRect(0, 0, width, MAP);
    this.map ??= this.makeMap();
    context.fillStyle = shown.accent;
    for (let x = 0; x < width; x++) {
      const share = this.map[Math.floor(x / width * this.map.length)];
      if (share > 0) { context.globalAlpha = .6; context.fillRect(x, MAP - 4 - share * (MAP - 8), 1, share * (MAP - 8)); }
    }
    context.globalAlpha = 1;
    const left = Math.max(0, this.from * scale), right = Math.min(width, this.to * scale);
    context.fillStyle = shown.text;
    context.globalAlpha = .12;
    context.fillRect(0, 0, left, MAP);
    context.fillRect(right, 0, width - right, MAP);
    context.globalAlpha = 1;
    context.fillStyle = shown.accent;
    context.fillRect(left, 0, 2, MAP);
    context.fillRect(right - 2, 0, 2, MAP);
    context.fillStyle = shown.line;
    context.fillRect(0, MAP - 1, width, 1);
  }

  /** How many rows are busy, from 0 to 1. */
  makeMap() {
    const cells = 512, busy = new Float64Array(cells), rows = this.items.filter((item) => item.kind === "row" && !isWindow(item.row));
    for (const { row } of rows) {
      const line = this.levels[row.index][0], spans = this.spans;
      if (line) for (let i = 0; i < CELLS; i++) busy[Math.floor(i * cells / CELLS)] += line.cover[i] / 255 * cells / CELLS;
      else if (spans) {
        for (const place of spans.lines[row.index][0] ?? []) {
          const from = spans.start[place] / this.whole * cells, to = (spans.start[place] + spans.dur[place]) / this.whole * cells;
          for (let i = Math.max(0, Math.floor(from)); i < Math.min(cells, to); i++) busy[i] += Math.min(i + 1, to) - Math.max(i, from);
        }
      }
    }
    const most = Math.max(...busy, 1e-9);
    return busy.map((share) => share / most);
  }

  /** Where a span is drawn: its middle, or null if its row is closed. */
  whereIs(place) {
    const item = this.items.find((one) => one.kind === "row" && one.row.index === this.spans.row[place]);
    if (!item) return null;
    const depth = item.isClosed ? 0 : this.spans.depth[place];
    return { y: MAP + AXIS + item.y - this.scroll + HEAD + depth * LEVEL + LEVEL / 2, item };
  }

  paintArrows() {
    const { links, spans, context } = this;
    if (!links) return;
    const near = [...links.out.get(this.selected) ?? [], ...links.into.get(this.selected) ?? []].slice(0, 400);
    context.strokeStyle = theme().accent;
    context.lineWidth = 1.5;
    for (const i of near) {
      const a = this.whereIs(links.from[i]), b = this.whereIs(links.to[i]);
      if (!a || !b) continue;
      const x0 = this.x(spans.start[links.from[i]] + (links.kind[i] === 2 ? spans.dur[links.from[i]] : 0)), x1 = this.x(spans.start[links.to[i]]);
      const bend = Math.max(24, Math.min(160, Math.abs(x1 - x0) / 2));
      context.beginPath();
      context.moveTo(x0, a.y);
      context.bezierCurveTo(x0 + bend, a.y, x1 - bend, b.y, x1, b.y);
      context.stroke();
      context.beginPath();
      context.moveTo(x1, b.y);
      context.lineTo(x1 - 6, b.y - 4);
      context.lineTo(x1 - 6, b.y + 4);
      context.fillStyle = theme().accent;
      context.fill();
    }
  }

  // ----------------------------------------------------------------------------------------- moving about

  show(from, to, margin = .02) {
    const wide = Math.max(to - from, 20);
    this.move(from - margin * wide, to + margin * wide);
  }

  move(from, to) {
    this.aim(from, to);
    this.draw();
    this.remember();
  }

  aim(from, to) {
    const wide = Math.min(Math.max(to - from, 10), this.whole * 1.3);
    const middle = (from + to) / 2;
    from = Math.max(-.15 * this.whole - wide * .5, Math.min(middle - wide / 2, this.whole * 1.15 - wide * .5));
    this.from = from;
    this.to = from + wide;
  }

  zoom(factor, x = this.width / 2) {
    const centre = this.at(x);
    this.move(centre - (centre - this.from) * factor, centre + (this.to - centre) * factor);
  }

  pan(share) {
    const by = share * (this.to - this.from);
    this.move(this.from + by, this.to + by);
  }

  remember = debounce(250, () => {
    const state = { t: Math.round(this.from) + "," + Math.round(this.to) };
    if (this.selected >= 0) state.s = this.selected;
    if (this.query) state.q = this.query;
    if (this.range) state.r = this.range.map(Math.round).join(",");
    setHash("timeline", state);
  });

  restore(state) {
    const pair = (text) => (text ?? "").split(",").map((at) => Math.max(-this.whole, Math.min(Number(at), 2 * this.whole)));
    const [from, to] = pair(state.t);
    if (to > from) this.aim(from, to);
    const [start, end] = pair(state.r);
    this.range = end > start ? [start, end] : null;
    if (state.q !== undefined && state.q !== this.query) this.search.value = state.q, this.spans ? this.find(state.q) : this.query = state.q;
    if (state.s !== undefined) this.spans ? this.select(Number(state.s), false) : this.wanted = Number(state.s);
    if (this.range && this.spans) this.sum();
    this.draw();
  }

  // --------------------------------------------------------------------------------------------- listening

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey || event.altKey) this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * .012), event.offsetX);
      else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan((event.shiftKey ? event.deltaY : event.deltaX) / this.width);
      else { this.scroll += event.deltaY; this.draw(); }
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.drag(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointercancel", () => { this.pressed = null; });
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("dblclick", (event) => {
      const place = this.placeAt(event.offsetX, event.offsetY);
      if (place >= 0) this.show(this.spans.start[place], this.spans.start[place] + this.spans.dur[place], .1);
    });
  }

  press(event) {
    this.canvas.setPointerCapture(event.pointerId);
    const { offsetX: x, offsetY: y } = event;
    const how = y < MAP ? "map" : y < MAP + AXIS || event.shiftKey ? "range" : "pan";
    this.pressed = { x, y, how, from: this.from, to: this.to, scroll: this.scroll, moved: false };
    if (how === "map") this.moveMap(x);
    hideTip();
  }

  moveMap(x) {
    const middle = x / this.width * this.whole, half = (this.to - this.from) / 2;
    this.move(middle - half, middle + half);
  }

  drag(event) {
    const { offsetX: x, offsetY: y } = event, p = this.pressed;
    if (!p) return this.hover(x, y, event);
    if (Math.abs(x - p.x) + Math.abs(y - p.y) > 3) p.moved = true;
    if (!p.moved) return;
    if (p.how === "map") this.moveMap(x);
    else if (p.how === "range") { this.range = [this.at(p.x), this.at(x)].sort((a, b) => a - b); this.draw(); }
    else {
      const by = (p.x - x) / this.scale;
      this.scroll = p.scroll + p.y - y;
      this.move(p.from + by, p.to + by);
    }
  }

  release(event) {
    const p = this.pressed;
    this.pressed = null;
    if (!p) return;
    if (p.how === "range" && p.moved) { this.sum(); this.remember(); }
    else if (!p.moved) this.click(event.offsetX, event.offsetY);
  }

  click(x, y) {
    if (y < MAP + AXIS) { this.range = null; this.draw(); return; }
    const item = this.itemAt(y), inside = item ? y - (MAP + AXIS + item.y - this.scroll) : 0;
    if (item?.kind === "row" && inside < HEAD && x < 260) {
      if (!this.closed.delete(item.row.index)) this.closed.add(item.row.index);
      this.layout();
      this.draw();
      return;
    }
    this.select(this.placeAt(x, y));
  }

  hover(x, y, event) {
    const place = this.placeAt(x, y);
    if (place >= 0) {
      const { spans } = this, label = this.labels[spans.label[place]];
      showTip(label.name + "\n" + time(spans.dur[place]) + (spans.self[place] < spans.dur[place] ? ", itself " + time(spans.self[place]) : ""), event.clientX, event.clientY);
      return;
    }
    const item = y >= MAP + AXIS ? this.itemAt(y) : null, mark = item?.marks && y < MAP + AXIS + item.y - this.scroll + HEAD ? nearestMark(item.marks, this.at(x), 5 / this.scale) : null;
    showTip(mark ? mark.name + "\nmark at " + time(mark.at) : item?.kind === "curve" ? item.text + ": " + item.curve.format(valueAt(item.curve, this.at(x))) : "", event.clientX, event.clientY);
  }

  itemAt(y) {
    const at = y - MAP - AXIS + this.scroll;
    return this.items?.find((item) => at >= item.y && at < item.y + item.height);
  }

  /** The span under a point, or the nearest within two pixels; -1: none. */
  placeAt(x, y) {
    const item = y >= MAP + AXIS ? this.itemAt(y) : null;
    if (!this.spans || item?.kind !== "row") return -1;
    const depth = Math.floor((y - (MAP + AXIS + item.y - this.scroll) - HEAD) / LEVEL), line = this.spans.lines[item.row.index][depth];
    if (depth < 0 || !line || (item.isClosed && depth > 0)) return -1;
    const { start, dur } = this.spans, at = this.at(x), reach = 2 / this.scale, i = firstEndingAfter(line, start, dur, at - reach);
    return i < line.length && start[line[i]] <= at + reach ? line[i] : -1;
  }

  key(event) {
    const act = {
      w: () => this.zoom(1 / 1.5), s: () => this.zoom(1.5), a: () => this.pan(-.2), d: () => this.pan(.2), "+": () => this.zoom(1 / 1.5), "-": () => this.zoom(1.5),
      ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), ArrowUp: () => this.up(), ArrowDown: () => this.down(),
      PageUp: () => { this.scroll -= this.height * .8; this.draw(); }, PageDown: () => { this.scroll += this.height * .8; this.draw(); },
      "0": () => this.show(0, this.whole), f: () => this.focusSelected(), "/": () => this.search.focus(), n: () => this.nextMatch(1), N: () => this.nextMatch(-1),
      Escape: () => { this.range = null; this.select(-1); },
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return false;
    event.preventDefault();
    act();
    return true;
  }

  searchKey(event) {
    if (event.key === "Enter") { event.preventDefault(); this.find(this.search.value); this.nextMatch(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { this.search.value = ""; this.find(""); this.canvas.focus(); }
    event.stopPropagation();
  }

  // ---------------------------------------------------------------------------------------------- selection

  select(place, remember = true) {
    if (!this.spans) return;
    this.selected = Number.isInteger(place) && place >= 0 && place < this.spans.count ? place : -1;
    if (this.selected >= 0) { this.bring(this.selected); this.describe(this.selected); }
    else if (!this.range) this.side.hidden = true;
    this.draw();
    if (remember) this.remember();
  }

  /** Scrolls and moves as little as needed to show a span. */
  bring(place) {
    const { start, dur } = this.spans, where = this.whereIs(place);
    if (!where) return;
    if (where.item.isClosed) { this.closed.delete(where.item.row.index); this.layout(); }
    const y = where.item.y + HEAD + this.spans.depth[place] * LEVEL, room = (this.height ?? 400) - MAP - AXIS;
    if (y < this.scroll) this.scroll = y - 30;
    if (y + LEVEL > this.scroll + room) this.scroll = y + LEVEL - room + 30;
    const end = start[place] + dur[place];
    if (end < this.from || start[place] > this.to) {
      const wide = this.to - this.from, middle = start[place] + Math.min(dur[place], wide) / 2;
      this.move(middle - wide / 2, middle + wide / 2);
    }
  }

  goto(place) {
    this.select(place);
    this.focusSelected();
  }

  focusSelected() {
    if (this.selected < 0) return;
    const { start, dur } = this.spans;
    this.show(start[this.selected], start[this.selected] + dur[this.selected], 1);
  }

  step(by) {
    if (this.selected < 0) return this.pan(.1 * by);
    const line = this.spans.lines[this.spans.row[this.selected]][this.spans.depth[this.selected]], i = line.indexOf(this.selected) + by;
    if (i >= 0 && i < line.length) this.select(line[i]);
  }

  up() {
    if (this.selected >= 0 && this.spans.parent[this.selected] >= 0) this.select(this.spans.parent[this.selected]);
    else { this.scroll -= 40; this.draw(); }
  }

  down() {
    const next = this.selected + 1;
    if (this.selected >= 0 && next < this.spans.count && this.spans.parent[next] === this.selected) this.select(next);
    else if (this.selected < 0) { this.scroll += 40; this.draw(); }
  }

  async describe(place) {
    const { spans, labels } = this, label = labels[spans.label[place]], row = this.trace.head.rows[spans.row[place]];
    const details = await this.trace.details();
    if (this.selected !== place) return;
    const facts = [["Duration", time(spans.dur[place])], ["Itself", time(spans.self[place])], ["Starts at", time(spans.start[place])],
      ["Category", label.category || "none"], [row.device ? "Stream" : "Thread", rowName(row)]];
    if (row.process) facts.push(["Process", processName(row)]);
    if (spans.flags[place] & 1) facts.push(["Unfinished", "its end was not recorded"]);
    if (spans.flags[place] & 8) facts.push(["Backward", "runs in the backward pass"]);
    const shape = details.shape?.[place] ? details.shapes[details.shape[place] - 1] : null;
    if (shape) facts.push(...[["Inputs", shape[0]], ["Types", shape[1]], ["Values", shape[2]]].filter(([, text]) => text));
    if (details.bytes?.[place]) facts.push(["Bytes", bytes(details.bytes[place]) + bandwidth(details.bytes[place], spans.dur[place])]);
    const frames = stackOf(details, details.stack?.[place] ?? 0);
    this.fillSide(
      el("h3", {}, label.name), list(facts), this.linkList(place),
      frames.length > 0 && el("div", {}, el("h3", {}, "Stack"), el("ol", { className: "stack" }, frames.map((frame) => el("li", {}, frame)))),
      el("div", { className: "tools" },
        el("button", { className: "small", onclick: () => { this.search.value = label.name; this.find(label.name); } }, "Find all"),
        el("button", { className: "small", onclick: () => openPage("operators", { q: label.name }) }, "In operators"),
        el("button", { className: "small", onclick: () => this.focusSelected() }, "Zoom to it (f)")));
  }

  linkList(place) {
    const { links, spans, labels } = this, kinds = ["flow", "launch", "backward"];
    const entry = (i, other, arrow) => el("button", { className: "small", onclick: () => this.goto(other) }, arrow + " " + labels[spans.label[other]].name.slice(0, 60) + " (" + kinds[links.kind[i]] + ")");
    const all = [...(links?.out.get(place) ?? []).map((i) => entry(i, links.to[i], "\u2192")), ...(links?.into.get(place) ?? []).map((i) => entry(i, links.from[i], "\u2190"))];
    return all.length > 0 && el("div", { className: "tools" }, all.slice(0, 12), all.length > 12 && el("span", { className: "note" }, "and " + (all.length - 12) + " more"));
  }

  fillSide(...children) {
    const wasHidden = this.side.hidden;
    this.side.hidden = false;
    this.side.replaceChildren(el("button", { className: "quiet", style: { float: "right" }, title: "Close (Esc)", "aria-label": "Close",
      onclick: () => { this.range = null; this.select(-1); this.canvas.focus(); } }, "\u00d7"), ...children.filter(Boolean));
    if (wasHidden) this.draw();
  }

  /** What happens in the selected range: by name, cut at its edges. */
  sum() {
    if (!this.spans || !this.range) return;
    const [from, to] = this.range, { start, dur, label, lines, parent } = this.spans, sums = new Map();
    let count = 0;
    for (const row of lines) for (const line of row)
      for (let i = firstEndingAfter(line, start, dur, from); i < line.length && start[line[i]] < to; i++) {
        const place = line[i], inside = Math.min(to, start[place] + dur[place]) - Math.max(from, start[place]);
        if (inside < 0) continue;
        let sum = sums.get(label[place]);
        if (!sum) sums.set(label[place], sum = { count: 0, total: 0, self: 0 });
        sum.count++;
        sum.total += inside;
        sum.self += inside;
        const caller = parent[place] >= 0 ? sums.get(label[parent[place]]) : null; // met before: callers are one level up
        if (caller) caller.self -= inside;
        count++;
      }
    const rows = [...sums].sort((a, b) => b[1].self - a[1].self).slice(0, 60);
    this.fillSide(
      el("h3", {}, time(to - from) + " selected"), list([["From", time(from)], ["To", time(to)], ["Spans", grouped(count)]]),
      el("div", { className: "tools" }, el("button", { className: "small", onclick: () => this.show(from, to) }, "Zoom to it")),
      el("table", {}, el("thead", {}, el("tr", {}, el("th", { className: "name" }, "Name"), el("th", {}, "Calls"), el("th", {}, "Itself"))),
        el("tbody", {}, rows.map(([key, sum]) => el("tr", {}, el("td", { className: "name", title: this.labels[key].name }, this.labels[key].name),
          el("td", {}, grouped(sum.count)), el("td", {}, time(sum.self)))))));
  }

  // ------------------------------------------------------------------------------------------------ search

  find(query) {
    this.query = query;
    const words = query.toLowerCase();
    if (!words || !this.spans) {
      this.matches = null;
      this.count.textContent = "";
    } else {
      this.matches = this.labels.map((label) => label.name.toLowerCase().includes(words));
      let count = 0, total = 0;
      for (let i = 0; i < this.spans.count; i++) if (this.matches[this.spans.label[i]]) count++, total += this.spans.self[i];
      this.count.textContent = count === 0 ? "nothing found" : plural(count, "span") + ", " + time(total) + " themselves";
    }
    this.draw();
    this.remember();
  }

  nextMatch(by) {
    if (!this.matches || !this.spans) return;
    const { start, label, count } = this.spans;
    const now = this.selected >= 0 ? start[this.selected] : by > 0 ? this.from : this.to;
    let best = -1, first = -1;
    for (let i = 0; i < count; i++) {
      if (!this.matches[label[i]]) continue;
      const after = by > 0 ? start[i] - now : now - start[i];
      const isLater = after > 0 || (after === 0 && this.selected >= 0 && (i - this.selected) * by > 0) || (after === 0 && this.selected < 0);
      if (isLater && (best < 0 || (by > 0 ? start[i] < start[best] : start[i] > start[best]))) best = i;
      if (first < 0 || (by > 0 ? start[i] < start[first] : start[i] > start[first])) first = i;
    }
    const next = best >= 0 ? best : first;
    if (next >= 0) this.select(next);
  }
}

// ------------------------------------------------------------------------------------------------------- helpers

/** Kineto's row about the recording itself. */
const isWindow = (row) => row.pid === "Spans" || row.pid === "Traces";

function processName(row) {
  const name = row.process || (row.device ? "Device" : "Process");
  return name + (row.pid !== undefined && !name.includes(row.pid) ? " " + row.pid : "") + (row.labels ? " (" + row.labels + ")" : "");
}
function rowName(row) {
  const name = row.name || (row.device ? "stream" : "thread");
  return name + (name.includes(row.tid) ? "" : " " + row.tid) + (row.lane > 0 ? " (overlapping " + row.lane + ")" : "");
}
const list = (facts) => el("dl", {}, facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
const bandwidth = (size, ns) => ns > 0 ? ", " + (size / ns).toFixed(1) + " GB/s" : "";

function stackOf(details, stack) {
  const frames = [];
  for (let at = stack; at > 0 && frames.length < 200; at = details.stacks[at - 1][0]) frames.push(details.stacks[at - 1][1]);
  return frames;
}

/** The first of a line's spans that ends after `at`: they do not overlap, so ends are in order. */
function firstEndingAfter(line, start, dur, at) {
  let low = 0, high = line.length;
  while (low < high) {
    const mid = (low + high) >>> 1;
    if (start[line[mid]] + dur[line[mid]] <= at && dur[line[mid]] + start[line[mid]] < at + 1e-9) low = mid + 1; else high = mid;
  }
  return low;
}

/** The first from i + 1 on that starts at `at` or later: near, usually. */
function skipTo(line, start, i, at) {
  let step = 1, low = i + 1, high = i + 1;
  while (high < line.length && start[line[high]] < at) { low = high + 1; high += step; step *= 2; }
  high = Math.min(high, line.length);
  while (low < high) {
    const mid = (low + high) >>> 1;
    if (start[line[mid]] < at) low = mid + 1; else high = mid;
  }
  return low;
}

/** How many of the sorted numbers are at most `at`. */
function upperBound(sorted, at, from = 0) {
  let low = Math.max(from, 0), high = sorted.length;
  while (low < high) {
    const mid = (low + high) >>> 1;
    if (sorted[mid] <= at) low = mid + 1; else high = mid;
  }
  return low;
}
