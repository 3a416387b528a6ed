// flame.js - calls merged by their callers: a flame graph (or icicle), and the tree of modules.

/** What a flame graph shows: { title, name(node), own, total, parent, children, calls?, isPlain?(node) }. */
async function flameViews(trace) {
  const [flame, labels] = await Promise.all([trace.flame(), trace.labels()]);
  const calls = { name: (node) => nodeName(trace, flame, labels, node), parent: flame.parent, children: flame.children, calls: flame.calls, isPlain: (node) => node === 0 || flame.label[node] >= 2 ** 40 };
  const views = [{ ...calls, title: "Calls", note: "Width is CPU time, thread by thread.", own: flame.ownHost, total: flame.host }];
  if (flame.children[0].length > 1) views[flame.children[0].length > 16 ? "unshift" : "push"]({ ...mergedThreads(flame, calls), title: "Threads together", note: "Width is CPU time, of all threads." });
  if (flame.device[0] > 0) views.push({ ...calls, title: "Calls, device time", note: "Width is device time of what was launched there.", own: flame.ownDevice, total: flame.device });
  for (const [id, title, note] of [["stacks", "Stacks", "Width is CPU time; frames of the program with the ops in them."], ["device_stacks", "Stacks, device time", "Width is device time of what was launched there."]]) {
    const stacks = await trace.stacks(id);
    if (stacks) views.push({ title, note, name: (node) => stacks.names[node], own: stacks.own, total: stacks.total, parent: stacks.parent, children: stacks.children, isPlain: (node) => node === 0 });
  }
  return views.filter((view) => view.total[0] > 0);
}

/** The same tree without its threads: what they call alike is one. */
function mergedThreads(flame, calls) {
  const into = new Int32Array(flame.count), parent = [0], from = [0], known = [new Map()], own = [0], counts = [0];
  for (let node = 1; node < flame.count; node++) {
    if (flame.label[node] >= 2 ** 40) continue; // a thread: its calls are the root's
    const above = into[flame.parent[node]], label = flame.label[node];
    let here = known[above].get(label);
    if (here === undefined) known[above].set(label, here = parent.push(above) - 1), from.push(node), known.push(new Map()), own.push(0), counts.push(0);
    into[node] = here;
    own[here] += flame.ownHost[node];
    counts[here] += flame.calls[node];
  }
  const total = Float64Array.from(own), children = parent.map(() => []);
  for (let i = parent.length - 1; i > 0; i--) total[parent[i]] += total[i];
  for (let i = 1; i < parent.length; i++) children[parent[i]].push(i);
  return { name: (node) => calls.name(from[node]), parent, children, calls: counts, own, total, isPlain: (node) => node === 0 };
}

class Flame {
  constructor(root, views) {
    Object.assign(this, { views, top: 0, cursor: -1, isDown: true, query: "", view: views[0] });
    if (views.length === 0) {
      root.append(el("p", { className: "notice" }, "There are no calls to show."));
      return;
    }
    this.canvas = el("canvas", { tabIndex: 0, style: { cursor: "pointer" }, role: "img", "aria-label": "Flame graph; arrow keys choose a frame, Enter or a click zooms" });
    this.search = el("input", { type: "search", placeholder: "Highlight  ( / )", "aria-label": "Highlight names", oninput: debounce(100, () => { this.query = this.search.value.toLowerCase(); this.paint(); this.remember(); }) });
    this.found = el("span", { className: "note", "aria-live": "polite" });
    this.direction = el("button", { className: "small", "aria-pressed": "false", onclick: () => { this.isDown = !this.isDown; this.direction.setAttribute("aria-pressed", String(!this.isDown)); this.paint(); this.remember(); } }, "Flames upwards");
    this.choices = views.map((view) => el("button", { className: "small", onclick: () => this.show(view, 0) }, view.title));
    this.path = el("div", { className: "note", "aria-live": "polite" });
    root.append(el("div", { className: "tools" }, views.length > 1 && this.choices, this.search, this.direction, el("button", { className: "small", onclick: () => this.show(this.view, 0) }, "Whole"), this.found), this.path, el("figure", {}, this.canvas));
    this.canvas.addEventListener("click", (event) => { const node = this.nodeAt(event.offsetX, event.offsetY); if (node >= 0) this.show(this.view, node); });
    this.canvas.addEventListener("mousemove", (event) => { const box = this.boxAt(event.offsetX, event.offsetY); showTip(!box ? "" : box.node >= 0 ? this.say(box.node) : "what is too narrow to be drawn here; click what calls it to see more", event.clientX, event.clientY); });
    this.canvas.addEventListener("mouseleave", hideTip);
    repaint(this.canvas, () => this.paint());
  }

  say(node) {
    const { name, total, own, calls } = this.view;
    return name(node) + "\n" + time(total[node]) + " (" + percent(share(total[node], total[0])) + "), itself " + time(own[node]) + (calls?.[node] ? "\n" + plural(calls[node], "call") : "");
  }

  show(view, node, remember = true) {
    Object.assign(this, { view, top: node, cursor: node > 0 ? node : -1 });
    this.paint();
    if (remember) this.remember();
  }

  remember() {
    const which = this.views.indexOf(this.view);
    setHash("flame", { v: which > 0 ? which : undefined, n: this.top > 0 ? this.top : undefined, q: this.query || undefined, up: this.isDown ? undefined : 1 });
  }

  /** How much of the time is in frames that match: in the outermost of them, for the others are part of these. */
  matched() {
    const { total, parent, name } = this.view, within = new Uint8Array(total.length);
    let time = 0;
    for (let node = 1; node < total.length; node++) {
      within[node] = within[parent[node]];
      if (!within[node] && name(node).toLowerCase().includes(this.query)) within[node] = 1, time += total[node];
    }
    return time;
  }

  /** Boxes of what is visible: the callers of the top one in full width, and all below it that is wider than half a pixel. */
  place(width) {
    const { total, parent, children } = this.view, boxes = [], path = [];
    for (let node = this.top; node > 0; node = parent[node]) path.unshift(node);
    path.slice(0, -1).forEach((node, i) => boxes.push({ node, x: 0, width, depth: i, isAbove: true }));
    const open = [{ node: this.top, x: 0, width, depth: Math.max(0, path.length - 1) }];
    for (let box; (box = open.pop());) {
      boxes.push(box);
      let x = box.x;
      for (const child of [...children[box.node]].sort((a, b) => total[b] - total[a])) {
        const wide = total[box.node] > 0 ? box.width * total[child] / total[box.node] : 0;
        if (wide < .5 || box.depth > 1200) {
          const rest = box.width * this.below(box.node) / total[box.node] - (x - box.x);
          if (rest >= 1) boxes.push({ node: -1, of: box.node, x, width: rest, depth: box.depth + 1 });
          break;
        }
        open.push({ node: child, x, width: wide, depth: box.depth + 1 });
        x += wide;
      }
    }
    return boxes;
  }

  /** The time of all that a node calls. */
  below(node) { return this.view.total[node] - this.view.own[node]; }

  paint() {
    if (this.canvas.offsetParent === null) return;
    const { view } = this, width = Math.max(1, this.canvas.getBoundingClientRect().width), row = 19, boxes = this.boxes = this.place(width);
    const height = (boxes.reduce((most, box) => Math.max(most, box.depth), 0) + 1) * row + 2, { context } = prepare(this.canvas, height), shown = theme();
    context.fillStyle = shown.back;
    context.fillRect(0, 0, width, height);
    context.font = FONT;
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const box of boxes) {
      box.y = this.isDown ? box.depth * row : height - (box.depth + 1) * row;
      if (box.node < 0) { context.fillStyle = shown.line; context.fillRect(box.x, box.y, box.width - .7, row - 1); continue; }
      const name = view.name(box.node), isDim = this.query && !name.toLowerCase().includes(this.query), isPlain = view.isPlain(box.node);
      context.globalAlpha = box.isAbove ? .6 : 1;
      context.fillStyle = isDim ? shown.line : isPlain ? shown.hover : colourOf(name);
      context.fillRect(box.x, box.y, Math.max(.5, box.width - .7), row - 1);
      context.globalAlpha = 1;
      const text = box.width > 26 ? fitted(context, name, box.width - 8) : "";
      if (text) { context.fillStyle = isDim || isPlain ? shown.text : "#16181d"; context.fillText(text, box.x + 4, box.y + row / 2); }
      if (box.node === this.cursor && this.cursor !== this.top) { context.strokeStyle = shown.text; context.lineWidth = 2; context.strokeRect(box.x + 1, box.y + 1, Math.max(1, box.width - 2.7), row - 3); }
    }
    const found = this.query ? this.matched() : 0;
    this.found.textContent = !this.query ? "" : found > 0 ? time(found) + " (" + percent(share(found, view.total[0])) + ") in what matches" : "nothing found";
    this.choices.forEach((button, i) => button.setAttribute("aria-pressed", String(this.views[i] === view)));
    this.path.textContent = this.cursor > 0 ? this.say(this.cursor).replaceAll("\n", ", ") : view.note + " Click a frame to see it in full width.";
  }

  boxAt(x, y) { return this.boxes?.find((one) => x >= one.x && x < one.x + one.width && y >= one.y && y < one.y + 18); }

  nodeAt(x, y) { return this.boxAt(x, y)?.node ?? -1; }

  /** Arrow keys: to the caller, to the largest callee, and along the callees of one caller. */
  step(key) {
    const { parent, children, total } = this.view, at = Math.max(0, this.cursor), largest = (node) => [...children[node]].sort((a, b) => total[b] - total[a]);
    const beside = largest(parent[at]), i = beside.indexOf(at), towards = this.isDown ? { ArrowUp: "up", ArrowDown: "down" }[key] : { ArrowUp: "down", ArrowDown: "up" }[key];
    const next = towards === "up" ? parent[at] : towards === "down" ? largest(at)[0] : at > 0 ? beside[i + (key === "ArrowRight" ? 1 : -1)] : largest(0)[0];
    if (next !== undefined) this.cursor = next;
    this.paint();
  }

  restore(state) {
    const view = this.views[Number(state.v) || 0] ?? this.view, node = Number(state.n);
    if (!view) return;
    this.search.value = state.q ?? "";
    this.query = this.search.value.toLowerCase();
    this.isDown = state.up === undefined;
    this.direction.setAttribute("aria-pressed", String(!this.isDown));
    if (view) this.show(view, Number.isInteger(node) && node > 0 && node < view.parent.length ? node : 0, false);
  }

  key(event) {
    if (event.key === "/") { event.preventDefault(); this.search?.focus(); return true; }
    if (!this.view) return false;
    if (event.key === "Escape" || event.key === "0") { this.show(this.view, 0); return true; }
    if (event.key.startsWith("Arrow") && event.target === this.canvas) { event.preventDefault(); this.step(event.key); return true; }
    if (event.key === "Enter" && event.target === this.canvas) { this.show(this.view, Math.max(0, this.cursor)); return true; }
    return false;
  }
}

function nodeName(trace, flame, labels, node) {
  const label = flame.label[node];
  if (node === 0) return "all";
  if (label >= 2 ** 40) return rowName(trace.head.rows.find((row) => row.track === label - 2 ** 40));
  return labels[label - 1].name.replace(/^ProfilerStep#\d+$/, "ProfilerStep*");
}

// --------------------------------------------------------------------------------------------------- modules

/** The module calls alone, nested as they called each other: { name, calls, host, device, own, children }. */
function moduleTree(trace, flame, labels) {
  const root = { name: "", calls: 0, host: 0, device: 0, nested: 0, children: new Map() };
  const walk = (node, above) => {
    const label = flame.label[node], isModule = label > 0 && label < 2 ** 40 && labels[label - 1].isModule;
    let here = above;
    if (isModule) {
      const name = labels[label - 1].name.replace(/^nn\.Module: /, "");
      if (!above.children.has(name)) above.children.set(name, { name, calls: 0, host: 0, device: 0, nested: 0, children: new Map() });
      here = above.children.get(name);
      here.calls += flame.calls[node];
      here.host += flame.host[node];
      here.device += flame.device[node];
      above.nested += flame.host[node];
    }
    for (const child of flame.children[node]) walk(child, here);
  };
  walk(0, root);
  return root;
}

async function modulesPage(trace, root) {
  const [flame, labels] = await Promise.all([trace.flame(), trace.labels()]), tree = moduleTree(trace, flame, labels);
  if (tree.children.size === 0) {
    root.append(el("p", { className: "notice" }, "No module calls were recorded. Profile with with_modules=True or with_stack=True to see them here."));
    return;
  }
  const hasDevice = flame.device[0] > 0, body = el("tbody"), closed = new Set(), whole = [...tree.children.values()].reduce((sum, one) => sum + one.host, 0);
  const fill = () => {
    const rows = [];
    const add = (module, depth, path) => {
      const children = [...module.children.values()].sort((a, b) => b.host - a.host), isClosed = closed.has(path);
      rows.push(el("tr", {}, el("td", { className: "name", title: module.name }, el("button", { style: { paddingLeft: depth * 18 + "px" }, "aria-expanded": children.length ? String(!isClosed) : undefined,
        onclick: () => { if (!closed.delete(path)) closed.add(path); fill(); } }, (children.length ? (isClosed ? "\u25b8 " : "\u25be ") : "\u2003") + module.name)),
        el("td", {}, grouped(module.calls)), el("td", { className: "shared" }, shareBar(module.host, whole), time(module.host)), el("td", {}, percent(share(module.host, whole))),
        el("td", {}, time(module.host - module.nested)), hasDevice && el("td", {}, time(module.device))));
      if (!isClosed) for (const child of children) add(child, depth + 1, path + "/" + child.name);
    };
    for (const child of [...tree.children.values()].sort((a, b) => b.host - a.host)) add(child, 0, child.name);
    body.replaceChildren(...rows);
  };
  fill();
  root.append(el("p", { className: "note" }, "Calls of nn.Module, in the modules that called them. Backward passes run outside of them, and do not count."),
    el("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Modules" }, el("table", { className: "tree" }, el("thead", {}, el("tr", {}, el("th", { className: "name" }, "Module"), el("th", {}, "Calls"), el("th", {}, "CPU total"), el("th", {}, "Share"), el("th", {}, "Without submodules"), hasDevice && el("th", {}, "Device total"))), body)));
}
