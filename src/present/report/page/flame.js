// flame.js - calls merged by their callers: a flame graph (or icicle), and the tree of modules.

/** What a flame graph shows: { title, name(node), own, total, parent, children, calls?, isPlain?(node) }. */
async function flameViews(trace) {
  const [flame, labels] = await Promise.all([trace.flame(), trace.labels()]);
  const calls = { name: (node) => nodeName(trace, flame, labels, node), parent: flame.parent, children: flame.children, calls: flame.calls, isPlain: (node) => node === 0 || flame.label[node] >= 2 ** 40 };
  const views = [{ ...calls, title: "Calls", note: "Width is CPU time, of all threads.", own: flame.ownHost, total: flame.host }];
  if (flame.device[0] > 0) views.push({ ...calls, title: "Calls, device time", note: "Width is device time of what was launched there.", own: flame.ownDevice, total: flame.device });
  for (const [id, title, note] of [["stacks", "Stacks", "Width is CPU time; frames of the program with the ops in them."], ["device_stacks", "Stacks, device time", "Width is device time of what was launched there."]]) {
    const stacks = await trace.stacks(id);
    if (stacks) views.push({ title, note, name: (node) => stacks.names[node], own: stacks.own, total: stacks.total, parent: stacks.parent, children: stacks.children, isPlain: (node) => node === 0 });
  }
  return views.filter((view) => view.total[0] > 0);
}

class Flame {
  constructor(root, views) {
    Object.assign(this, { views, top: 0, isDown: true, query: "", view: views[0] });
    if (views.length === 0) {
      root.append(el("p", { className: "notice" }, "There are no calls to show."));
      return;
    }
    this.canvas = el("canvas", { tabIndex: 0, style: { cursor: "pointer" }, role: "img", "aria-label": "Flame graph; click a frame to zoom" });
    this.search = el("input", { type: "search", placeholder: "Highlight  ( / )", "aria-label": "Highlight names", oninput: debounce(100, () => { this.query = this.search.value.toLowerCase(); this.paint(); }) });
    this.direction = el("button", { className: "small", "aria-pressed": "false", onclick: () => { this.isDown = !this.isDown; this.direction.setAttribute("aria-pressed", String(!this.isDown)); this.paint(); } }, "Flames upwards");
    this.choices = views.map((view) => el("button", { className: "small", onclick: () => this.show(view, 0) }, view.title));
    this.path = el("div", { className: "note", "aria-live": "polite" });
    root.append(el("div", { className: "tools" }, views.length > 1 && this.choices, this.search, this.direction, el("button", { className: "small", onclick: () => this.show(this.view, 0) }, "Whole")), this.path, el("figure", {}, this.canvas));
    this.canvas.addEventListener("click", (event) => { const node = this.nodeAt(event.offsetX, event.offsetY); if (node >= 0) this.show(this.view, node); });
    this.canvas.addEventListener("mousemove", (event) => { const node = this.nodeAt(event.offsetX, event.offsetY); showTip(node >= 0 ? this.say(node) : "", event.clientX, event.clientY); });
    this.canvas.addEventListener("mouseleave", hideTip);
    repaint(this.canvas, () => this.paint());
  }

  say(node) {
    const { name, total, own, calls } = this.view;
    return name(node) + "\n" + time(total[node]) + " (" + percent(share(total[node], total[0])) + "), itself " + time(own[node]) + (calls?.[node] ? "\n" + plural(calls[node], "call") : "");
  }

  show(view, node, remember = true) {
    Object.assign(this, { view, top: node });
    this.paint();
    const which = this.views.indexOf(view);
    if (remember) setHash("flame", { v: which > 0 ? which : undefined, n: node > 0 ? node : undefined });
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
        if (wide < .5 || box.depth > 600) break;
        open.push({ node: child, x, width: wide, depth: box.depth + 1 });
        x += wide;
      }
    }
    return boxes;
  }

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
      const name = view.name(box.node), isDim = this.query && !name.toLowerCase().includes(this.query), isPlain = view.isPlain(box.node);
      context.globalAlpha = box.isAbove ? .6 : 1;
      context.fillStyle = isDim ? shown.line : isPlain ? shown.hover : colourOf(name);
      context.fillRect(box.x, box.y, Math.max(.5, box.width - .7), row - 1);
      context.globalAlpha = 1;
      const text = box.width > 26 ? fitted(context, name, box.width - 8) : "";
      if (text) { context.fillStyle = isDim || isPlain ? shown.text : "#16181d"; context.fillText(text, box.x + 4, box.y + row / 2); }
    }
    this.choices.forEach((button, i) => button.setAttribute("aria-pressed", String(this.views[i] === view)));
    this.path.textContent = this.top > 0 ? this.say(this.top).replaceAll("\n", ", ") : view.note + " Click a frame to see it in full width.";
  }

  nodeAt(x, y) {
    const box = this.boxes?.find((one) => x >= one.x && x < one.x + one.width && y >= one.y && y < one.y + 18);
    return box ? box.node : -1;
  }

  restore(state) {
    const view = this.views[Number(state.v) || 0] ?? this.view, node = Number(state.n);
    if (view) this.show(view, Number.isInteger(node) && node > 0 && node < view.parent.length ? node : 0, false);
  }

  key(event) {
    if (event.key === "/") { event.preventDefault(); this.search?.focus(); return true; }
    if (event.key === "Escape" || event.key === "0") { this.show(this.view, 0); return true; }
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
        el("td", {}, grouped(module.calls)), el("td", {}, shareBar(module.host, whole), time(module.host)), el("td", {}, percent(share(module.host, whole))),
        el("td", {}, time(module.host - module.nested)), hasDevice && el("td", {}, time(module.device))));
      if (!isClosed) for (const child of children) add(child, depth + 1, path + "/" + child.name);
    };
    for (const child of [...tree.children.values()].sort((a, b) => b.host - a.host)) add(child, 0, child.name);
    body.replaceChildren(...rows);
  };
  fill();
  root.append(el("p", { className: "note" }, "Calls of nn.Module, in the modules that called them. Backward passes run outside of them, and do not count."),
    el("div", { className: "scroll" }, el("table", { className: "tree" }, el("thead", {}, el("tr", {}, el("th", { className: "name" }, "Module"), el("th", {}, "Calls"), el("th", {}, "CPU total"), el("th", {}, "Share"), el("th", {}, "Without submodules"), hasDevice && el("th", {}, "Device total"))), body)));
}
