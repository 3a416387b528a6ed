// overview.js - where the time goes: totals, steps, the ops that take most of it, what to know about the trace.

const SHARES = [["cpu only", "#88b4e0"], ["cpu and device", "#7fc4a4"], ["device only", "#f0b45c"], ["idle", "#b9bec8"]];

const WORK = ["cpu_op", "cuda_runtime", "cuda_driver"]; // without any, what else was recorded counts: src/analyze/steps.c

/** A step's time in the four parts of SHARES, in us. */
function partsOf(times) {
  return [times.cpu_us - times.both_us, times.both_us, times.device_us - times.both_us, times.idle_us];
}

function sumTimes(steps) {
  const sum = { wall_us: 0, cpu_us: 0, device_us: 0, both_us: 0, idle_us: 0 };
  for (const step of steps) for (const key of Object.keys(sum)) sum[key] += step[key];
  return sum;
}

async function overviewPage(trace, root) {
  const { head } = trace, operators = await trace.operators(), steps = head.steps.steps ?? [], sum = sumTimes(steps);
  root.append(...notices(head));
  const hasDevice = sum.device_us > 0 || head.device_spans > 0;
  const card = (value, text) => el("div", { className: "card" }, el("b", {}, value), el("span", {}, text));
  const isSteps = steps.length > 0 && steps[0].step !== null;
  const labels = await trace.labels(), rows = operators.name, waits = waiting(rows), cost = ownCost(head, rows, labels), of = isSteps ? "of the steps' time " : "of the time ", isTimed = sum.wall_us > 0 && head.spans > 0;
  root.append(el("div", { className: "cards" },
    card(time(head.duration), "recorded"),
    isSteps && card(grouped(steps.length), steps.length === 1 ? "step" : "steps, median " + microseconds(median(steps.map((step) => step.wall_us)))),
    isTimed && card(percent(share(sum.cpu_us, sum.wall_us)), of + "some thread was in " + (labels.some((label) => WORK.includes(label.category)) ? "an op" : "a scope or function")),
    isTimed && hasDevice && card(percent(share(sum.device_us, sum.wall_us)), of + "a device was busy"),
    isTimed && card(percent(share(sum.idle_us, sum.wall_us)), of + "idle: " + (hasDevice ? "neither ran" : "none ran")),
    waits.count > 0 && card(microseconds(waits.us), "waited for devices, in " + plural(waits.count, "call")),
    cost && card(cost.value, cost.text),
    card(grouped(head.spans), (head.spans === 1 ? "span" : "spans") + " on " + plural(head.tracks, "track"))));
  findingList(trace, root, await trace.findings());
  if (isSteps) stepBars(trace, root, steps, hasDevice);
  gapTable(trace, root, head.steps);
  topRows(root, "CPU time by op", rows.filter((row) => row.self_cpu_time_total > 0 && !row.is_user_annotation), "self_cpu_time_total", "Time in the op itself, of all threads. Annotations such as steps are left out.");
  if (hasDevice) topRows(root, "Device time by kernel", rows.filter((row) => row.device_type !== "DeviceType.CPU" && !row.is_user_annotation), "self_device_time_total", "Time on the device itself.");
}

const share = (part, whole) => whole > 0 ? part / whole : 0;

/** Calls that return when a device is done. */
function waiting(rows) {
  const waits = rows.filter((row) => row.device_type === "DeviceType.CPU" && /^(cuda|hip|cu)\w*Synchronize|^cl(Finish|WaitForEvents)$/.test(row.key));
  return { us: waits.reduce((sum, row) => sum + row.self_cpu_time_total, 0), count: waits.reduce((sum, row) => sum + row.count, 0) };
}

const RECORD_NS = { ours: 25, torch: 300 }; // an op without shapes and stacks: docs/benchmarks.md, as src/analyze/findings/find_trust.c

/** What the profiler itself took: as recorded or, where it is not, as the busiest thread's spans suggest. No share: that of the finding is of the time examined. */
function ownCost(head, rows, labels) {
  const names = new Set(labels.filter((label) => label.category === "overhead").map((label) => label.name)), us = rows.reduce((sum, row) => sum + (names.has(row.key) ? row.self_cpu_time_total : 0), 0);
  if (us > 0) return { value: microseconds(us), text: "the profiler's own, as it recorded" };
  const spans = new Map();
  for (const row of head.rows) if (!row.device && !isWindow(row)) spans.set(row.track, (spans.get(row.track) ?? 0) + row.count);
  const most = [...spans.values()].reduce((a, b) => Math.max(a, b), 0), ns = most * (head.ledger ? RECORD_NS.ours : RECORD_NS.torch);
  return most > 0 && head.duration > 0 && !head.without_times ? { value: "\u2248 " + shortTime(ns, 2), text: "the profiler's own, or more: estimated" } : null;
}

/** The longest times in which nothing ran, each with its place. */
function gapTable(trace, root, { steps, idle_gaps: gaps = [] }) {
  const starts = new Map(steps.map((step) => [step.step, step.start_us])), shown = gaps.slice(0, 5), columns = [["after", "After"], ["before", "Before"], ["inside", "In"]].filter(([key]) => shown.some((gap) => gap[key]));
  if (shown.length === 0) return;
  root.append(el("h2", {}, "Longest idle times"), el("div", { className: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "Idle"), el("th", {}, "At"), el("th", {}, "Step"), columns.map(([, title]) => el("th", { className: "name" }, title)))),
    el("tbody", {}, shown.map((gap) => {
      const from = ((starts.get(gap.step) ?? 0) + gap.at_us) * 1e3, to = from + gap.us * 1e3;
      return el("tr", {}, el("td", {}, el("button", { className: "link", title: "Show it in the timeline", onclick: () => openPage("timeline", { t: Math.round(2 * from - to) + "," + Math.round(2 * to - from), r: Math.round(from) + "," + Math.round(to) }) }, microseconds(gap.us))),
        el("td", {}, from < 0 ? "the start" : time(from)), el("td", {}, gap.step === null ? "" : String(gap.step)), columns.map(([key]) => el("td", { className: "name", title: gap[key] }, shortName(gap[key]))));
    })))));
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor((sorted.length - 1) / 2)] : 0;
}

/** What a reader must know before trusting the figures. */
function notices(head) {
  const said = [], add = (text) => said.push(el("p", { className: "warn" }, text));
  if (head.spans === 0) said.push(el("p", { className: "notice" }, "This trace has no spans: nothing ran while it was recorded, or nothing was instrumented." + (head.memory_events > 0 ? " It has memory events." : head.instants > 0 ? " It has marks or counters: see the timeline." : "")));
  if (head.left_out > 0)
    add(plural(head.left_out, "span") + " shorter than " + time(head.least_ns) + " are not in this page, of " + grouped(head.spans) + ". Tables count all of them. To see them, cut the trace: mtprof cut --step 5-9 TRACE -o part.json.gz, or raise --max-spans.");
  if (head.without_times) add("This is an execution trace: it has the order of ops, but no times.");
  const ledger = head.ledger;
  if (ledger?.dropped > 0) add(grouped(ledger.dropped) + " of " + grouped(ledger.emitted) + " records were dropped while recording (" + Object.entries(ledger.by).map(([cause, count]) => grouped(count) + ": " + cause).join("; ") + ").");
  if (head.unfinished > 0) add(plural(head.unfinished, "span") + " had no end: they are shown as lasting until the end of the recording.");
  if (head.outcome === "recovered") add("The program ended without stopping the recording: everything up to then is here.");
  if (head.clock_uncertain) add("The system's clock stopped or jumped while recording: times may be off by a percent.");
  if (head.damaged_chunks + head.missing_chunks > 0) add("The recording is damaged: parts of it could not be read.");
  return said;
}

const isFar = (step) => step.is_outlier ?? step.outlier;

function stepBars(trace, root, steps, hasDevice) {
  const canvas = el("canvas", { style: { cursor: "pointer" }, role: "img", "aria-label": "Time of each step" });
  const sorted = steps.map((step) => step.wall_us).sort((a, b) => a - b), largest = sorted[sorted.length - 1] || 1;
  const usual = sorted[Math.floor((sorted.length - 1) / 2)] * 2; // one long first step must not hide the others
  let isWhole = largest <= 1.5 * usual, hit = () => -1;
  const scale = el("button", { className: "small", "aria-pressed": String(isWhole), onclick: () => { isWhole = !isWhole; scale.setAttribute("aria-pressed", isWhole); paint(); } }, "Show the longest in full, " + microseconds(largest));
  const paint = () => {
    if (canvas.offsetParent === null) return;
    hit = drawBars(canvas, {
      top: (isWhole ? largest : Math.min(largest, usual)) * 1.05 * 1e3, highlight: (i) => isFar(steps[i]),
      bars: steps.map((step) => ({ label: String(step.step), cut: !isWhole && step.wall_us > usual * 1.05 && microseconds(step.wall_us), parts: cut(partsOf(step).map((value, i) => ({ value: value * 1e3, colour: SHARES[i][1] })), isWhole ? Infinity : usual * 1.05e3) })) });
  };
  canvas.addEventListener("mousemove", (event) => {
    const step = steps[hit(event.offsetX)];
    showTip(step ? "step " + step.step + ": " + microseconds(step.wall_us) + "\n" + SHARES.map(([name], i) => name + " " + microseconds(partsOf(step)[i])).filter((_, i) => partsOf(step)[i] > 0).join("\n") : "", event.clientX, event.clientY);
  });
  canvas.addEventListener("mouseleave", hideTip);
  canvas.addEventListener("click", (event) => {
    const step = steps[hit(event.offsetX)];
    if (step) openPage("timeline", { t: Math.round((step.start_us - .02 * step.wall_us) * 1e3) + "," + Math.round((step.start_us + 1.02 * step.wall_us) * 1e3) });
  });
  root.append(el("h2", {}, "Steps"), el("figure", {}, canvas),
    el("div", { className: "legend" }, SHARES.filter((_, i) => hasDevice || i === 0 || i === 3).map(([name, colour]) => el("span", {}, el("i", { style: { background: colour } }), name)),
      steps.some(isFar) && el("span", {}, el("i", { className: "of-far" }), "far from the others"), largest > 1.5 * usual && scale));
  repaint(canvas, paint);
}

function cut(parts, most) {
  let left = most;
  return parts.map((part) => { const value = Math.min(part.value, left); left -= value; return { ...part, value }; });
}

function topRows(root, title, rows, key, note) {
  const shown = [...rows].sort((a, b) => b[key] - a[key]).slice(0, 12), total = rows.reduce((sum, row) => sum + row[key], 0), top = shown[0]?.[key] || 1;
  if (shown.length === 0) return;
  root.append(el("h2", {}, title), el("p", { className: "note" }, note), el("div", { className: "bars" }, shown.map((row) => [
    el("span", { className: "name", title: row.key }, shortName(row.key)),
    el("div", { className: "bar", style: { width: Math.max(.3, 100 * row[key] / top) + "%", background: colourOf(row.key) } }),
    el("span", { className: "value" }, microseconds(row[key])), el("span", { className: "value" }, percent(share(row[key], total))), el("span", { className: "value" }, plural(row.count, "call"))])));
}

// --------------------------------------------------------------------------------------------------- findings

const KINDS = { time: "", memory: "memory", trust: "how far to trust this", note: "note" };

/** What stands out, as `mtprof explain` says it, with links to where it is. */
function findingList(trace, root, { findings }) {
  root.append(el("h2", {}, "Findings"));
  if (findings.length === 0) root.append(el("p", { className: "note" }, "Nothing stands out: no finding is better than a wrong one. ", el("code", {}, "mtprof explain"), " looks for what docs/findings.md lists."));
  for (const finding of findings) {
    const gain = finding.gain_us > 0 ? "could save " + microseconds(finding.gain_us) + " (" + percent(finding.share) + ")" : KINDS[finding.kind];
    root.append(el("article", { className: "finding of-" + finding.kind, id: "finding-" + finding.id }, el("h3", {}, finding.title, gain && el("span", { className: "gain" }, gain)), el("p", {}, finding.text), el("p", { className: "next" }, "Next: " + finding.advice),
      finding.evidence.length > 0 && el("ul", {}, finding.evidence.slice(0, 5).map((evidence) => el("li", {}, el("button", { className: "link", title: evidence.name, onclick: () => showEvidence(trace, evidence) }, evidenceText(evidence)))))));
  }
}

/** What is no span, nor memory, is a gap, or a step. */
function evidenceText(evidence) {
  const what = shortName(evidence.name), size = evidence.bytes ? bytes(evidence.bytes) : microseconds(evidence.total_us), isGap = evidence.span === undefined && !evidence.bytes && (evidence.calls > 1 || !what);
  return size + (isGap ? " in " + plural(evidence.calls, "gap") + (what ? " in " + what : "") : (evidence.calls > 1 ? " in " + plural(evidence.calls, "call") + " of " : ", ") + (what || "(no name)")) + (evidence.source ? ", at " + evidence.source : "") + (evidence.step !== undefined ? ", step " + evidence.step : "");
}

/** Selects the span in the timeline; what is no span is shown as a range. */
async function showEvidence(trace, evidence) {
  if (evidence.bytes && evidence.span === undefined) return openPage("memory"); // it was there before the trace
  const from = evidence.start_us * 1e3, wide = Math.max(evidence.us * 1e3, 200), t = Math.round(from - wide) + "," + Math.round(from + 2 * wide);
  const [spans, labels] = await Promise.all([trace.spans(), trace.labels()]);
  let place = -1;
  for (let i = 0; i < spans.count && place < 0 && evidence.span !== undefined; i++)
    if (Math.abs(spans.start[i] - from) < .6 && labels[spans.label[i]].name === evidence.name) place = i;
  openPage("timeline", place >= 0 ? { t, s: place } : { t, r: Math.round(from) + "," + Math.round(from + evidence.us * 1e3) });
}
