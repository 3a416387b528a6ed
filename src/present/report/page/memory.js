// memory.js - memory over time by category, the peak, what was alive there, and who allocated.

class Memory {
  constructor(trace, root, memory) {
    Object.assign(this, { trace, memory, root });
    const devices = memory?.devices.filter((device) => device.time.length > 0 || device.before.some((size) => size > 0)) ?? [];
    if (devices.length === 0) {
      root.append(el("p", { className: "notice" }, "No memory events were recorded. Profile with profile_memory=True, or run with mtprof run --memory."));
      return;
    }
    this.canvas = el("canvas", { tabIndex: 0, role: "img", "aria-label": "Memory over time. Drag to zoom, double-click for the whole" });
    this.below = el("div");
    this.caption = el("figcaption");
    this.devices = devices;
    const choose = this.choose = el("select", { "aria-label": "Device", onchange: () => { this.show(devices[choose.selectedIndex]); this.remember(); } }, devices.map((device) => el("option", {}, device.summary.device)));
    root.append(el("div", { className: "tools" }, devices.length > 1 && choose, el("button", { className: "small", onclick: () => this.zoomTo(0, this.trace.head.duration) }, "Whole"),
      el("button", { className: "small", onclick: () => this.zoomPeak() }, "Around the peak"), !trace.head.only && el("button", { className: "small", onclick: () => openPage("timeline", { t: Math.round(this.from) + "," + Math.round(this.to) }) }, "In timeline"),
      el("span", { className: "note" }, "Drag over the chart to zoom in, or press w; double-click or 0 shows all.")),
      el("figure", {}, this.canvas, this.caption), this.below);
    this.listen();
    this.first = Math.max(0, devices.findIndex((device) => device.summary.device === trace.head.device));
    choose.selectedIndex = this.first;
    this.show(devices[this.first]);
    repaint(this.canvas, () => this.paint());
  }

  show(device) {
    this.device = device;
    this.from = 0;
    this.to = Math.max(1, this.trace.head.duration);
    const now = [...device.before];
    this.totals = new Float64Array(device.time.length);
    let total = now.reduce((sum, size) => sum + size, 0);
    this.peak = { value: total, index: -1 };
    for (let i = 0; i < device.time.length; i++) {
      this.totals[i] = total += device.change[i];
      if (total > this.peak.value) this.peak = { value: total, index: i };
    }
    // the state at every 256th change, so that any stretch can be drawn without starting over
    this.marks = [];
    for (let i = 0; i < device.time.length; i++) {
      if (i % 256 === 0) this.marks.push([...now]);
      now[device.category[i]] += device.change[i];
    }
    this.paint();
    this.tables();
  }

  /** Sizes by category before change i. */
  stateAt(i) {
    const mark = Math.min(Math.floor(i / 256), this.marks.length - 1), state = [...(this.marks[mark] ?? this.device.before)];
    for (let k = mark * 256; k < i; k++) state[this.device.category[k]] += this.device.change[k];
    return state;
  }

  paint() {
    if (!this.device || this.canvas.offsetParent === null) return;
    const { context, width, height } = prepare(this.canvas, 340), shown = theme(), left = 70, bottom = 28, plot = { x: left, y: 10, width: width - left - 10, height: height - bottom - 10 };
    const top = Math.max(1, this.peak.value) * 1.08, { time: at, category, change } = this.device;
    Object.assign(this, { plot });
    context.fillStyle = shown.back;
    context.fillRect(0, 0, width, height);
    context.font = FONT;
    context.textBaseline = "middle";
    for (const tick of byteTicks(top, 5)) {
      const y = Math.round(plot.y + plot.height * (1 - tick / top)) + .5;
      context.fillStyle = shown.line;
      context.fillRect(left, y - .5, plot.width, 1);
      context.fillStyle = shown.dim;
      context.textAlign = "right";
      context.fillText(roundBytes(tick), left - 6, y);
    }
    const first = upperBound(at, this.from), state = this.stateAt(first), scale = plot.width / (this.to - this.from);
    let i = first;
    const sum = (sizes) => { let all = 0; for (const size of sizes) all += size; return all; };
    for (let x = 0; x < plot.width; x++) {
      const until = this.from + (x + 1) / scale;
      let shownState = [...state], most = sum(state), now = most;
      for (; i < at.length && at[i] <= until; i++) {
        state[category[i]] += change[i];
        now += change[i];
        if (now > most) most = now, shownState = [...state];
      }
      let y = plot.y + plot.height;
      shownState.forEach((size, k) => {
        if (size <= 0) return;
        const tall = size / top * plot.height;
        context.fillStyle = CATEGORY_COLOURS[k];
        context.fillRect(left + x, y - tall, 1, tall);
        y -= tall;
      });
    }
    drawAxis(context, { x: left, y: height - bottom + 4, width: plot.width, height: bottom - 8, from: this.from, to: this.to });
    this.markPeak(context, top, scale);
    if (this.dragged) {
      const [a, b] = this.dragged;
      context.fillStyle = shown.accent;
      context.globalAlpha = .2;
      context.fillRect(Math.min(a, b), plot.y, Math.abs(b - a), plot.height);
      context.globalAlpha = 1;
    }
  }

  markPeak(context, top, scale) {
    const { plot, peak } = this, when = peak.index >= 0 ? this.device.time[peak.index] : 0, x = plot.x + (when - this.from) * scale;
    if (x < plot.x || x > plot.x + plot.width) return;
    const y = plot.y + plot.height * (1 - peak.value / top), text = "peak " + bytes(peak.value), isRight = x > plot.x + plot.width - 130;
    context.fillStyle = theme().text;
    context.beginPath();
    context.arc(x, y, 3.5, 0, 7);
    context.fill();
    context.textAlign = isRight ? "right" : "left";
    context.fillText(text, x + (isRight ? -8 : 8), Math.max(y - 8, plot.y + 4));
    context.textAlign = "left";
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); this.dragged = [event.offsetX, event.offsetX]; hideTip(); });
    canvas.addEventListener("pointermove", (event) => {
      if (this.dragged) { this.dragged[1] = event.offsetX; this.paint(); return; }
      const when = this.from + (event.offsetX - this.plot.x) / this.plot.width * (this.to - this.from), state = this.stateAt(upperBound(this.device.time, when));
      const lines = state.map((size, k) => [size, this.memory.categories[k]]).filter(([size]) => size > 0).reverse().map(([size, name]) => name + " " + bytes(size));
      showTip(event.offsetX >= this.plot.x ? [time(when) + ": " + bytes(state.reduce((a, b) => a + b, 0)), ...lines].join("\n") : "", event.clientX, event.clientY);
    });
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("pointerup", () => {
      const [a, b] = [...this.dragged ?? [0, 0]].sort((x, y) => x - y), at = (x) => this.from + (x - this.plot.x) / this.plot.width * (this.to - this.from);
      this.dragged = null;
      if (b - a > 5) this.zoomTo(at(a), at(b)); else this.paint();
    });
    canvas.addEventListener("dblclick", () => this.zoomTo(0, this.trace.head.duration));
  }

  zoomTo(from, to) {
    this.from = Math.max(0, Math.min(from, this.trace.head.duration - 10));
    this.to = Math.max(this.from + 10, Math.min(to, this.trace.head.duration));
    this.paint();
    this.remember();
  }

  remember() {
    const isWhole = this.from === 0 && this.to >= this.trace.head.duration, which = this.devices.indexOf(this.device);
    setHash("memory", { d: which !== this.first ? which : undefined, t: isWhole ? undefined : Math.round(this.from) + "," + Math.round(this.to) });
  }

  key(event) {
    const wide = this.to - this.from, middle = (this.from + this.to) / 2;
    const act = this.device && { w: () => this.zoomTo(middle - wide / 3, middle + wide / 3), s: () => this.zoomTo(middle - wide * .75, middle + wide * .75), a: () => this.slide(-.2 * wide), d: () => this.slide(.2 * wide),
      "0": () => this.zoomTo(0, this.trace.head.duration), p: () => this.zoomPeak() }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return false;
    act();
    return true;
  }

  slide(by) {
    by = Math.max(-this.from, Math.min(by, this.trace.head.duration - this.to));
    this.zoomTo(this.from + by, this.to + by);
  }

  zoomPeak() {
    const when = this.peak.index >= 0 ? this.device.time[this.peak.index] : 0, wide = this.trace.head.duration / 40;
    this.zoomTo(when - wide, when + wide);
  }

  restore(state) {
    const [from, to] = (state.t ?? "").split(",").map(Number), device = this.devices?.[state.d ?? this.first];
    if (device && device !== this.device) this.choose.selectedIndex = this.devices.indexOf(device), this.show(device);
    if (this.device && to > from) this.zoomTo(from, to);
  }

  tables() {
    const { summary, by } = this.device, { peak } = summary;
    this.caption.replaceChildren(el("div", { className: "legend" }, this.memory.categories.map((name, k) => (peak.by_category[name] > 0 || this.device.category.includes(k)) && el("span", {}, el("i", { style: { background: CATEGORY_COLOURS[k] } }), peak.by_category[name] > 0 ? name + " " + bytes(peak.by_category[name]) + " at the peak" : name))));
    const blocks = peak.blocks.slice(0, 60), hasSource = blocks.some((block) => block.source), makers = [...by].sort((a, b) => b[3] - a[3] || b[2] - a[2]).slice(0, 60);
    const table = (heads, rows) => el("div", { className: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, heads.map(([text, name]) => el("th", { className: name }, text)))), el("tbody", {}, rows)));
    this.below.replaceChildren(
      el("div", { className: "cards", style: { marginTop: "14px" } }, [[bytes(peak.bytes), "peak, at " + microseconds(peak.time_us ?? 0)], [bytes(summary.end_bytes), "in use at the end"], summary.allocations !== undefined && [bytes(summary.preexisting_bytes), "in use before"],
        summary.allocations !== undefined && [grouped(summary.allocations), "allocations of " + bytes(summary.allocated_bytes)]].filter(Boolean).map(([value, text]) => el("div", { className: "card" }, el("b", {}, value), el("span", {}, text)))),
      ...(blocks.length ? [el("h2", {}, "Alive at the peak"), el("p", { className: "note" }, plural(peak.block_count, "block") + (blocks.length < peak.block_count ? "; the " + blocks.length + " largest" : "") + ", with the op that each was allocated for."),
      table([["Bytes"], ["Category", "name"], ["Made"], ["Freed"], ["By", "name"], hasSource && ["At", "name"]].filter(Boolean), blocks.map((block) => el("tr", {}, el("td", {}, bytes(block.bytes)), el("td", { className: "name" }, block.category), el("td", {}, block.created_us === null ? "before" : microseconds(block.created_us)),
        el("td", {}, block.freed_us === null ? "" : microseconds(block.freed_us)), el("td", { className: "name", title: block.maker }, block.maker || (block.created_us === null ? "(before the trace)" : "")), hasSource && el("td", { className: "name", title: block.source }, block.source))))] : []),
      ...(makers.length ? [el("h2", {}, "Allocations by op"), table([["Op", "name"], ["Allocations"], ["Bytes"], ["Alive at the peak"]], makers.map(([name, count, size, alive]) => el("tr", {}, el("td", { className: "name", title: name }, name || "(outside of ops)"), el("td", {}, grouped(count)), el("td", {}, bytes(size)), el("td", {}, bytes(alive)))))] : []));
  }
}

function roundBytes(size) {
  let unit = 0, value = size;
  for (; value >= 1024 && unit + 1 < UNITS.length; unit++) value /= 1024;
  return trimmed(value) + " " + UNITS[unit];
}
