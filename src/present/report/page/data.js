// data.js - reads what src/present/report/*.c wrote: blobs of deflated bytes as base64, columns of numbers in planes.

/** The bytes of a blob; its text leaves the page. Null: the report has none. */
async function readBlob(id, trace) {
  const holder = document.getElementById(id + "-" + trace);
  if (!holder) return null;
  const text = holder.textContent;
  holder.remove();
  let packed;
  if (Uint8Array.fromBase64) {
    packed = Uint8Array.fromBase64(text);
  } else {
    const raw = atob(text);
    packed = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) packed[i] = raw.charCodeAt(i);
  }
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const asText = (data) => new TextDecoder().decode(data);
const asJson = (data) => JSON.parse(asText(data));

/** JSON up to a zero byte, and where the columns behind it start. */
function splitJson(data) {
  const end = data.indexOf(0);
  return { json: asJson(data.subarray(0, end)), rest: end + 1 };
}

/** The columns in a blob from a byte on, in order: { name, count, planes: [bytes...] }. */
function readColumns(data, from = 0) {
  const columns = [];
  for (let at = from; at + 16 <= data.length;) {
    const view = new DataView(data.buffer, data.byteOffset + at, 16);
    const name = asText(data.subarray(at, at + 8)).replace(/\0+$/, "");
    const count = view.getUint32(8, true), planes = view.getUint8(12);
    at += 16;
    const bytes = [];
    for (let i = 0; i < planes; i++, at += count) bytes.push(data.subarray(at, at + count));
    columns.push({ name, count, planes: bytes });
  }
  return columns;
}

/** Whole numbers below 2^53. */
function numbers(column) {
  const { count, planes } = column;
  const wide = planes.length > 4 || (planes.length === 4 && planes[3].some((byte) => byte > 127));
  const made = wide ? new Float64Array(count) : new Uint32Array(count);
  for (let plane = 0; plane < planes.length; plane++) {
    const bytes = planes[plane], scale = 2 ** (8 * plane);
    for (let i = 0; i < count; i++) made[i] += bytes[i] * scale;
  }
  return made;
}

/** Negative numbers, too: 0, -1, 1, -2, ... */
function signed(column) {
  const from = numbers(column), made = new Float64Array(column.count);
  for (let i = 0; i < made.length; i++) made[i] = from[i] % 2 === 0 ? from[i] / 2 : -(from[i] + 1) / 2;
  return made;
}

const byName = (columns) => Object.fromEntries(columns.map((column) => [column.name, column]));

/** One trace of the report. Parts are read when they are first asked for, once. */
class Trace {
  constructor(number) {
    this.number = number;
    this.parts = new Map();
  }

  part(name, make) {
    if (!this.parts.has(name)) this.parts.set(name, make());
    return this.parts.get(name);
  }

  async json(id) {
    return this.part(id, async () => {
      const data = await readBlob(id, this.number);
      return data && asJson(data);
    });
  }

  findings() { return this.json("findings"); }
  operators() { return this.json("operators"); }
  labels() { return this.part("labels", async () => makeLabels(asJson(await readBlob("labels", this.number)))); }
  ranks() { return this.part("ranks", async () => makeRanks(await readBlob("ranks", this.number))); }
  counters() { return this.json("counters"); }
  levels() { return this.part("levels", async () => makeLevels(this.head, readColumns(await readBlob("levels", this.number)))); }
  spans() { return this.part("spans", async () => makeSpans(this.head, byName(readColumns(await readBlob("spans", this.number))))); }
  memory() { return this.part("memory", async () => makeMemory(await readBlob("memory", this.number))); }
  flame() { return this.part("flame", async () => makeFlame(byName(readColumns(await readBlob("flame", this.number))))); }
  stacks(id) { return this.part(id, async () => makeStacks(await readBlob(id, this.number))); }
  links() { return this.part("links", async () => makeLinks((await this.spans()).count, byName(readColumns(await readBlob("links", this.number))))); }

  diff() {
    return this.part("diff", async () => {
      const data = await readBlob("diff", this.number), { json, rest } = splitJson(data);
      return { diff: json, words: asText(data.subarray(rest)).trim() };
    });
  }

  details() {
    return this.part("details", async () => {
      const data = await readBlob("details", this.number), { json, rest } = splitJson(data);
      const columns = byName(readColumns(data, rest));
      return { shapes: json.shapes, stacks: json.stacks, shape: columns.shape && numbers(columns.shape),
        stack: columns.stack && numbers(columns.stack), bytes: columns.bytes && numbers(columns.bytes) };
    });
  }
}

function makeLabels(list) {
  return list.map(([name, category, isModule], index) => ({ index, name, category, isModule: isModule === 1, colour: colourOf(name) }));
}

/** By row and level: how much of each cell is covered (0 to 255), and by which label (+ 1). */
function makeLevels(head, columns) {
  const lines = [];
  let at = 0;
  for (const row of head.rows) {
    const own = [];
    for (let depth = 0; depth < row.depth && at + 1 < columns.length; depth++, at += 2)
      own.push({ cover: columns[at].planes[0] ?? new Uint8Array(columns[at].count), label: numbers(columns[at + 1]) });
    lines.push(own);
  }
  return lines;
}

/** start, dur, label, depth, flags, parent (-1: none) and self, by place; line: places by row and level, in order of time. */
function makeSpans(head, columns) {
  const pop = numbers(columns.pop), gap = signed(columns.gap), dur = numbers(columns.dur), label = numbers(columns.label);
  const count = pop.length, start = new Float64Array(count), depth = new Uint16Array(count), parent = new Int32Array(count);
  const self = new Float64Array(count), row = new Uint32Array(count), lines = [];
  const flags = columns.flags.planes[0] ?? new Uint8Array(count);
  let at = 0;
  head.rows.forEach((heading, index) => {
    const open = [], sizes = new Uint32Array(heading.depth + 1), first = at;
    for (; at < first + heading.count; at++) {
      const level = open.length - pop[at];
      const from = pop[at] > 0 ? start[open[level]] + dur[open[level]] : level > 0 ? start[open[level - 1]] : 0;
      start[at] = from + gap[at];
      depth[at] = level;
      row[at] = index;
      self[at] = dur[at];
      parent[at] = level > 0 ? open[level - 1] : -1;
      if (level > 0) self[open[level - 1]] -= dur[at];
      open.length = level;
      open.push(at);
      sizes[level]++;
    }
    const own = Array.from({ length: heading.depth }, (_, level) => new Uint32Array(sizes[level]));
    sizes.fill(0);
    for (let i = first; i < at; i++) own[depth[i]][sizes[depth[i]]++] = i;
    lines.push(own);
  });
  return { count, start, dur, label, depth, flags, parent, self, row, lines };
}

/** For each place, the places that arrows lead to and come from. */
function makeLinks(count, columns) {
  const from = signed(columns.from), to = signed(columns.to), kind = numbers(columns.kind);
  const out = new Map(), into = new Map();
  for (let i = 0; i < from.length; i++) {
    if (i > 0) { from[i] += from[i - 1]; to[i] += to[i - 1]; }
    for (const [map, key] of [[out, from[i]], [into, to[i]]]) {
      const list = map.get(key);
      if (list) list.push(i); else map.set(key, [i]);
    }
  }
  return { from, to, kind, out, into, length: from.length };
}

/** Nodes in an order in which parents come before their children; node 0 is the root of all. */
function makeFlame(columns) {
  const parent = numbers(columns.parent), label = numbers(columns.label), calls = numbers(columns.calls);
  const ownHost = numbers(columns.host), ownDevice = numbers(columns.device), count = parent.length;
  const host = Float64Array.from(ownHost), device = Float64Array.from(ownDevice), children = Array.from({ length: count }, () => []);
  for (let i = 0; i < count; i++) parent[i] = i - parent[i];
  for (let i = count - 1; i > 0; i--) {
    host[parent[i]] += host[i];
    device[parent[i]] += device[i];
  }
  for (let i = 1; i < count; i++) children[parent[i]].push(i);
  return { count, parent, label, calls, ownHost, ownDevice, host, device, children };
}

/** A tree of folded stacks ("a;b;c 12", in us), like makeFlame's, with names instead of labels. Null: there are none. */
function makeStacks(data) {
  const lines = data ? asText(data).split("\n").filter(Boolean) : [];
  if (lines.length === 0) return null;
  const nodes = [{ name: "all", parent: 0, own: 0, children: new Map() }];
  for (const line of lines) {
    const space = line.lastIndexOf(" ");
    let node = 0;
    for (const name of line.slice(0, space).split(";")) {
      const known = nodes[node].children.get(name);
      if (known === undefined) nodes[node].children.set(name, nodes.push({ name, parent: node, own: 0, children: new Map() }) - 1);
      node = known ?? nodes.length - 1;
    }
    nodes[node].own += Number(line.slice(space + 1)) * 1e3;
  }
  const count = nodes.length, own = Float64Array.from(nodes, (node) => node.own), total = own.slice();
  for (let i = count - 1; i > 0; i--) total[nodes[i].parent] += total[i];
  return { count, names: nodes.map((node) => node.name), parent: nodes.map((node) => node.parent), children: nodes.map((node) => [...node.children.values()]), own, total };
}

function makeMemory(data) {
  if (!data) return null;
  const { json, rest } = splitJson(data), columns = readColumns(data, rest);
  json.devices.forEach((device, index) => {
    const [gap, size, category] = columns.slice(3 * index, 3 * index + 3);
    const at = signed(gap), change = signed(size);
    for (let i = 0; i < at.length; i++) at[i] += i > 0 ? at[i - 1] : device.start;
    Object.assign(device, { time: at, change, category: category.planes[0] ?? new Uint8Array(at.length) });
  });
  return json;
}
