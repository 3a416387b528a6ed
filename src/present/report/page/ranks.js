// ranks.js - the ranks of a job, compared: who is late, since when, and why; where the time of each goes; each step.

const NOTES_SHOWN = 6;
// key, title, what it means, value for sorting, text; whether narrow screens leave it out (the selected rank tells all)
const RANK_COLUMNS = [
  ["host", "host", "", (row) => row.host, (row) => row.host, true],
  ...RANK_MEASURES.map(([key, title, note]) => [key, title, note + ", per step on average", (row) => row.per_step[key + "_us"], (row) => asTime(row.per_step[key + "_us"]), ["exposed", "transfer", "idle"].includes(key)]),
  ["overlap", "overlap", "Of all communication, computed meanwhile", (row) => row.overlap ?? -1, (row) => row.overlap === null ? "" : percent(row.overlap), true],
  ["clock", "clock", "Add this to the rank's times to have the reference's", (row) => row.clock.offset_ns, (row) => row.clock.offset_ns === 0 ? dimmed("0") : time(row.clock.offset_ns), true],
  ["error", "error", "Proved limit of the clock's error", (row) => row.clock.error_ns ?? Infinity, (row) => row.clock.error_ns === null ? "unknown" : row.clock.error_ns === 0 ? dimmed("0") : time(row.clock.error_ns), true]];

class Ranks {
  constructor(root, ranks, shown) {
    Object.assign(this, { root, ranks, shown, sort: "rank", down: false, measure: "wall", step: -1, cursor: null });
    const found = ranks.findings.find((one) => one.id === "straggler");
    this.straggler = found ? ranks.numbers.indexOf(found.rank) : -1;
    this.since = found && found.since_step >= 0 ? ranks.steps.indexOf(found.since_step) : -1;
    this.rank = this.first = Math.max(0, this.straggler);
    this.started = ranks.ranks.some((row) => row.only_started);
    root.append(el("p", { className: "note" }, this.headline()), ...this.findings(), ...this.notes());
    if (ranks.steps.length > 0) this.charts();
    else root.append(el("p", { className: "notice" }, "The ranks have no step in common: nothing can be compared by step."));
    this.table();
    this.choose(this.rank, this.step, false);
  }

  /** How many, of what, how well their clocks are known: as `mtprof ranks` begins. */
  headline() {
    const { ranks, steps } = this.ranks, hosts = new Set(ranks.map((row) => row.host).filter(Boolean)).size, others = ranks.filter((row) => row.clock.by !== "reference"), errors = others.map((row) => row.clock.error_ns), known = errors.filter((error) => error !== null);
    const ties = ["communication calls", "measured", "same machine"].find((by) => others.some((row) => row.clock.by === by)), usual = [...ranks.map((row) => row.per_step.wall_us)].sort((a, b) => a - b)[ranks.length >> 1];
    const by = { "communication calls": "tied by communication calls", measured: "tied by measurements while recording", "same machine": "one machine's" }[ties] ?? "tied by the time of day only";
    const proved = known.length === 0 ? ", with an unknown error" : (Math.max(...known) > 0 ? ", proved to " + time(Math.max(...known)) : "") + (known.length < errors.length ? ", some with an unknown error" : "");
    return plural(ranks.length, "rank") + (ranks[0].backend ? " (" + ranks[0].backend + ")" : "") + (hosts > 1 ? " on " + plural(hosts, "host") : "") + (steps.length > 0 && steps[0] >= 0 ? ", " + plural(steps.length, "step") + " of " : ", ") + (steps.length > 0 ? microseconds(usual) : "no step in common") + ". Clocks are " + by + proved + ".";
  }

  findings() {
    const { findings } = this.ranks;
    if (findings.length === 0) {
      const text = this.started ? ["Who waits for whom cannot be said from these traces", "Of communication they have only what the host enqueued, not when it ran: the notes below say more. Steps, computation and idle times are compared."]
        : this.ranks.ranks.every((row) => row.matched === 0) ? ["Who waits for whom is not known", "No communication call was found on several of these ranks, so lateness and waiting cannot be told. Steps, computation and idle times are compared."]
          : ["Nothing stands out", "No rank is late, and communication takes little time."];
      return [el("article", { className: "finding of-note" }, el("h3", {}, text[0]), el("p", {}, text[1]))];
    }
    return findings.map((one, i) => el("article", { className: "finding of-" + one.id, id: "rank-finding-" + i }, el("h3", {}, one.title), el("p", {}, one.text), this.leads(one)));
  }

  /** From a finding to where it is seen. */
  leads(finding) {
    const rank = this.ranks.numbers.indexOf(finding.rank), step = this.ranks.steps.indexOf(finding.since_step), isStraggler = finding.id === "straggler", links = [];
    const link = (text, onclick) => links.push(el("button", { className: "link", onclick }, text));
    if (rank >= 0) link("Rank " + finding.rank, () => this.choose(rank, this.step));
    if (step >= 0) link("Step " + finding.since_step + ", the first", () => this.choose(rank >= 0 ? rank : this.rank, step));
    if (isStraggler && traces.length > 1 && rank === this.shown[1]) link("Compared with rank " + this.ranks.numbers[this.shown[0]], () => openPage("compare"));
    if (isStraggler && this.shown.includes(rank)) link("In the timeline", () => this.openTimeline(rank, step));
    return links.length > 0 && el("p", { className: "next leads" }, links);
  }

  notes() {
    const { notes } = this.ranks, items = (list) => el("ul", {}, list.map((note) => el("li", {}, note)));
    if (notes.length === 0) return [];
    return [el("div", { className: "warn notes", role: "note" }, items(notes.slice(0, NOTES_SHOWN)), notes.length > NOTES_SHOWN && el("details", {}, el("summary", {}, "and " + plural(notes.length - NOTES_SHOWN, "note") + " more"), items(notes.slice(NOTES_SHOWN))))];
  }

  // ------------------------------------------------------------------------------------------------ charts

  charts() {
    const isLate = lateTop(this.ranks).most > 0, chart = (canvas, ...more) => el("figure", {}, canvas, ...more);
    this.map = el("canvas", { className: "ranks-chart", tabIndex: 0, role: "img", "aria-label": "How late each rank is in each step. Arrow keys move, Enter selects, Escape goes back to the mean", "aria-describedby": "ranks-cell" });
    this.bars = el("canvas", { className: "ranks-chart", tabIndex: 0, role: "img", "aria-label": "Where the time of each rank goes. Arrow keys move, Enter selects", "aria-describedby": "ranks-cell" });
    this.line = el("canvas", { className: "ranks-chart", role: "img", "aria-label": "Each step of the selected rank, beside the median rank's" });
    this.scale = el("div", { className: "late-scale" });
    this.cell = el("p", { className: "note", id: "ranks-cell", "aria-live": "polite" });
    this.barsTitle = el("h2");
    this.back = el("button", { className: "small", onclick: () => this.choose(this.rank, -1) }, "Mean of all steps");
    this.chooser = el("select", { "aria-label": "What the line shows", onchange: () => { this.measure = RANK_MEASURES[this.chooser.selectedIndex][0]; this.draw(); this.remember(); } }, RANK_MEASURES.map(([, title, note]) => el("option", { title: note }, title)));
    this.rankTitle = el("h2");
    this.facts = el("div");
    this.cutNote = el("span");
    const nothing = el("p", { className: "note" }, this.started ? "Not known: these traces do not say when ranks entered a call." : "No rank entered a call after the others.");
    const two = el("div", { className: "ranks-two" },
      el("div", {}, el("div", { className: "ranks-head" }, el("h2", {}, "How late each rank is")), isLate ? chart(this.map, this.scale) : nothing),
      el("div", {}, el("div", { className: "ranks-head" }, this.barsTitle, el("span", { className: "grow" }), this.back), chart(this.bars), this.legend()));
    two.style.setProperty("--map", !isLate ? "1fr" : this.ranks.steps.length * STEP_WIDE < 700 ? Math.max(440, this.ranks.steps.length * STEP_WIDE + RANK_LEFT + 8) + "px" : "3fr");
    this.root.append(two, this.cell,
    el("div", { className: "ranks-head" }, this.rankTitle, el("span", { className: "grow" }), this.chooser), chart(this.line, el("figcaption", { className: "legend" }, el("span", {}, el("i", { className: "of-rank" }), this.rankName = el("span")), el("span", {}, el("i", { className: "of-median" }), "the median rank"),
      this.ranks.numbers.length > 2 && el("span", {}, el("i", { className: "of-all" }), "all ranks, from the least to the most"), this.cutNote)), this.facts);
    this.listen(isLate);
    if (isLate) repaint(this.map, () => this.paintMap());
    repaint(this.bars, () => this.paintBars());
    repaint(this.line, () => this.paintLine());
  }

  legend() {
    const { times, means } = this.ranks, has = (part) => means.some((t) => part(t) > 0) || (times.copies.some((ns) => ns > 0) && part === RANK_PARTS[2][3]);
    return el("div", { className: "legend" }, RANK_PARTS.filter(([, , , part]) => has(part)).map(([, text, colour]) => el("span", {}, el("i", { style: { background: colour } }), text)));
  }

  paintScale() {
    const { top, most, isCut } = lateTop(this.ranks);
    this.scale.replaceChildren(el("span", {}, "late by"), el("div", {}, el("div", { className: "colours", style: { background: "linear-gradient(to right, " + lateStops().join(", ") + ")" } }),
      el("div", { className: "ticks" }, rootTicks(top).map((tick) => el("span", { style: { left: 100 * Math.sqrt(tick / top) + "%" } }, tick === 0 ? "0" : shortTime(tick))))), ...(isCut ? [el("span", {}, "and more, up to " + shortTime(most))] : []));
  }

  paintMap() {
    if (this.map.offsetParent === null) return;
    this.paintScale();
    this.mapAt = drawLate(this.map, this.ranks, this);
  }
  paintBars() { if (this.bars.offsetParent !== null) this.barsAt = drawRankBars(this.bars, this.ranks, this); }
  paintLine() {
    if (this.line.offsetParent === null) return;
    this.lineAt = drawRankLine(this.line, this.ranks, this);
    this.cutNote.textContent = this.lineAt.cut ? "Longer than is shown: up to " + microseconds(rankSpread(this.ranks, this.measure).most.reduce((a, b) => Math.max(a, b), 0) / 1e3) : "";
  }

  /** Called whenever the page is shown, or the theme changes. */
  draw() {
    if (!this.map) return;
    this.paintMap();
    this.paintBars();
    this.paintLine();
  }

  stepName(step) { return this.ranks.steps[step] < 0 ? "the whole trace" : "step " + this.ranks.steps[step]; }
  cellText({ rank, step, isOne = true }) {
    const late = rankTimes(this.ranks, rank, step).late;
    return "rank " + this.ranks.numbers[rank] + ", " + this.stepName(step) + ": " + (late > 0 ? microseconds(late / 1e3) + " late" : "not late") + (isOne ? "" : "\nthe latest of the cells here");
  }
  barText(rank) {
    const t = rankTimes(this.ranks, rank, this.step), whole = RANK_PARTS.reduce((sum, [, , , part]) => sum + part(t), 0);
    return ["rank " + this.ranks.numbers[rank] + ", " + (this.step < 0 ? "mean step" : this.stepName(this.step)) + ": " + microseconds(t.wall / 1e3), ...RANK_PARTS.filter(([, , , part]) => part(t) > 0).map(([, text, , part]) => text + " " + microseconds(part(t) / 1e3) + " (" + percent(share(part(t), whole)) + ")")].join("\n");
  }

  listen(isLate) {
    const over = (canvas, text) => {
      canvas.addEventListener("mousemove", (event) => showTip(text(event.offsetX, event.offsetY), event.clientX, event.clientY));
      canvas.addEventListener("mouseleave", hideTip);
    };
    if (isLate) over(this.map, (x, y) => { const cell = this.mapAt?.hit(x, y); return cell ? this.cellText(cell) : ""; });
    over(this.bars, (x, y) => { const rank = this.barsAt?.hit(x, y) ?? -1; return rank >= 0 ? this.barText(rank) : ""; });
    over(this.line, (x) => { const step = this.lineAt?.hit(x) ?? -1; return step >= 0 ? this.lineText(step) : ""; });
    this.map.addEventListener("click", (event) => { const cell = this.mapAt?.hit(event.offsetX, event.offsetY); if (cell) this.choose(cell.rank, cell.step); });
    this.bars.addEventListener("click", (event) => { const rank = this.barsAt?.hit(event.offsetX, event.offsetY) ?? -1; if (rank >= 0) this.choose(rank, this.step); });
    this.line.addEventListener("click", (event) => { const step = this.lineAt?.hit(event.offsetX) ?? -1; if (step >= 0) this.choose(this.rank, step); });
    this.map.addEventListener("keydown", (event) => this.mapKey(event));
    this.bars.addEventListener("keydown", (event) => this.barsKey(event));
    for (const canvas of [this.map, this.bars]) {
      canvas.addEventListener("focus", () => { if (canvas.matches(":focus-visible")) this.point(canvas, this.cursor ?? { rank: this.rank, step: Math.max(0, this.step) }); });
      canvas.addEventListener("blur", () => { hideTip(); this.cursor = null; this.paintMap(); });
    }
  }

  lineText(step) {
    const spread = rankSpread(this.ranks, this.measure), value = rankTimes(this.ranks, this.rank, step)[this.measure], [, title] = RANK_MEASURES.find(([key]) => key === this.measure);
    return this.stepName(step) + ", " + (title === "step" ? "time" : title) + "\nrank " + this.ranks.numbers[this.rank] + " " + microseconds(value / 1e3) + "\nthe median rank " + microseconds(spread.middle[step] / 1e3) + "\nall ranks " + microseconds(spread.least[step] / 1e3) + " to " + microseconds(spread.most[step] / 1e3);
  }

  /** The cell that the keys are at, told as one that the mouse is over. */
  point(canvas, cell) {
    const box = canvas.getBoundingClientRect(), isMap = canvas === this.map;
    this.cursor = cell;
    if (isMap) this.paintMap();
    const at = isMap ? this.mapAt.box(cell.rank, cell.step) : this.barsAt.box(cell.rank), text = isMap ? this.cellText(cell) : this.barText(cell.rank);
    showTip(text, box.left + (isMap ? at[0] + at[2] : at[0]), box.top + at[1] + at[3]);
    this.cell.textContent = text.replaceAll("\n", ", ");
  }

  mapKey(event) {
    const { rank, step } = this.cursor ?? { rank: this.rank, step: Math.max(0, this.step) }, ranks = this.ranks.numbers.length - 1, steps = this.ranks.steps.length - 1, { per } = rankRows(ranks + 1), far = Math.max(1, Math.ceil(1 / this.mapAt.wide));
    const to = { ArrowLeft: [0, -far], ArrowRight: [0, far], ArrowUp: [-per, 0], ArrowDown: [per, 0], PageUp: [-10 * per, 0], PageDown: [10 * per, 0], Home: [0, -steps], End: [0, steps] }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || (!to && event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    if (to) this.point(this.map, { rank: Math.max(0, Math.min(ranks, rank + to[0])), step: Math.max(0, Math.min(steps, step + to[1])) });
    else this.choose(rank, step);
  }

  barsKey(event) {
    const rank = this.cursor?.rank ?? this.rank, last = this.ranks.numbers.length - 1, to = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10, Home: -last, End: last }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || (!to && event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    if (to) this.point(this.bars, { rank: Math.max(0, Math.min(last, rank + to)), step: Math.max(0, this.step) });
    else this.choose(rank, this.step);
  }

  // ---------------------------------------------------------------------------------------------- selection

  /** A rank, and a step (-1: the mean of all). */
  choose(rank, step, remember = true) {
    this.rank = rank;
    this.step = step;
    for (const row of this.body.children) row.classList.toggle("open", Number(row.dataset.index) === rank), row.querySelector("button").setAttribute("aria-pressed", String(Number(row.dataset.index) === rank));
    if (this.map) {
      const name = "Rank " + this.ranks.numbers[rank] + (this.ranks.ranks[rank].host ? " (" + this.ranks.ranks[rank].host + ")" : "");
      this.barsTitle.textContent = "Where the time goes: " + (step >= 0 ? this.stepName(step) : this.ranks.steps.length > 1 ? "the mean step" : this.stepName(0));
      this.back.hidden = step < 0;
      this.rankTitle.textContent = name + ": each step";
      this.rankName.textContent = "rank " + this.ranks.numbers[rank];
      this.facts.replaceChildren(...this.aboutRank(rank, step));
      this.draw();
    }
    if (remember) this.remember();
  }

  aboutRank(rank, step) {
    const row = this.ranks.ranks[rank], t = rankTimes(this.ranks, rank, step), isShown = this.shown.includes(rank), error = row.clock.error_ns === null ? ", with an unknown error" : row.clock.error_ns > 0 ? ", proved to " + time(row.clock.error_ns) : "";
    const isOwn = this.ranks.ranks.every((other) => other === row || other.file !== row.file), command = "mtprof report " + (isOwn ? "" : "--rank " + row.rank + " ") + shellWord(row.file);
    return [list([[step >= 0 || this.ranks.steps.length === 1 ? "In " + this.stepName(Math.max(0, step)) : "Mean step", RANK_MEASURES.map(([key, title]) => title + " " + microseconds(t[key] / 1e3)).join(", ")], row.matched > 0 && ["Last to enter", grouped(row.last) + " of " + plural(row.matched, "call") + " that were found on other ranks"],
      row.overlap !== null && ["Overlap", percent(row.overlap) + " of all communication runs beside computation"], row.only_started && ["Communication", "only what the host enqueued is in the trace, not when it ran"], row.compute_assumed && ["Compute", "no operators were recorded: all that is not communication"],
      ["Clock", row.clock.by === "reference" ? "the reference" : time(row.clock.offset_ns) + " (" + row.clock.by + error + ")"], ["File", row.file]].filter(Boolean)),
    isShown ? el("div", { className: "tools" }, el("button", { className: "small", onclick: () => this.openTimeline(rank, step) }, step >= 0 && this.ranks.steps[step] >= 0 ? "Its " + this.stepName(step) + " in the timeline" : "Its timeline"), traces.length > 1 && el("button", { className: "small", onclick: () => openPage("compare") }, "Rank " + this.ranks.numbers[this.shown[0]] + " compared with rank " + this.ranks.numbers[this.shown[1]]))
      : el("p", { className: "note" }, "The other pages are of " + (this.shown.length > 1 ? "ranks " : "rank ") + this.shown.map((index) => this.ranks.numbers[index] ?? "?").join(" and ") + ". To see this one: ", el("code", {}, command))];
  }

  openTimeline(rank, step) {
    showTrace(this.shown.indexOf(rank));
    const found = traces[shownTrace].head.steps.steps?.find((one) => one.step === this.ranks.steps[step]), around = found && [found.start_us - .02 * found.wall_us, found.start_us + 1.02 * found.wall_us].map((us) => Math.round(us * 1e3)).join(",");
    openPage("timeline", around ? { t: around } : {});
  }

  remember() { setHash("ranks", { rank: this.rank === this.first ? undefined : this.ranks.numbers[this.rank], step: this.step >= 0 ? this.ranks.steps[this.step] : undefined, m: this.measure === "wall" ? undefined : this.measure, sort: this.sort === "rank" && !this.down ? undefined : (this.down ? "-" : "") + this.sort }); }

  restore(state) {
    const rank = state.rank === undefined ? this.first : this.ranks.numbers.indexOf(Number(state.rank)), sort = (state.sort ?? "").replace(/^-/, "");
    if (sort === "rank" || RANK_COLUMNS.some(([key]) => key === sort)) this.down = state.sort.startsWith("-"), this.sort = sort;
    if (RANK_MEASURES.some(([key]) => key === state.m)) this.measure = state.m;
    if (this.chooser) this.chooser.selectedIndex = RANK_MEASURES.findIndex(([key]) => key === this.measure);
    this.fill();
    this.choose(rank >= 0 ? rank : this.first, state.step === undefined ? -1 : this.ranks.steps.indexOf(Number(state.step)), false);
  }

  key(event) {
    if (event.key !== "Escape" || this.step < 0) return false;
    this.choose(this.rank, -1);
    return true;
  }

  // -------------------------------------------------------------------------------------------------- table

  table() {
    this.head = el("thead");
    this.body = el("tbody");
    const { ranks } = this.ranks;
    this.columns = RANK_COLUMNS.filter(([key]) => (key !== "host" || ranks.some((row) => row.host)) && (key !== "overlap" || ranks.some((row) => row.overlap !== null)));
    this.root.append(el("h2", {}, "Ranks"), el("p", { className: "note" }, this.ranks.steps.length > 1 ? "Per step, on average. " : "", "Exposed: communication while nothing is computed = waiting (for ranks that come later) + transfer. Late: enters calls so much after the median rank." +
      (ranks.some((row) => row.compute_assumed) ? " No operators were recorded: compute is the time outside of communication." : "") + (this.ranks.unit > 1 ? " Times of single steps are rounded to microseconds." : "")),
    el("div", { className: "scroll wide", tabIndex: 0, role: "region", "aria-label": "Ranks" }, el("table", { id: "ranks" }, this.head, this.body)));
    this.fill();
  }

  fill() {
    const [, , , value] = RANK_COLUMNS.find(([key]) => key === this.sort) ?? [null, null, null, (row) => row.rank], sign = this.down ? -1 : 1;
    const order = this.ranks.ranks.map((_, index) => index).sort((a, b) => { const x = value(this.ranks.ranks[a]), y = value(this.ranks.ranks[b]); return (x < y ? -1 : x > y ? 1 : 0) * sign || a - b; });
    const heading = (key, title, note, isLess, name) => el("th", { className: (name ?? "") + (isLess ? " less" : ""), title: note, "aria-sort": this.sort === key ? (this.down ? "descending" : "ascending") : undefined },
      el("button", { onclick: () => { this.down = this.sort === key ? !this.down : key !== "rank" && key !== "host"; this.sort = key; this.fill(); this.remember(); } }, title + (this.sort === key ? (this.down ? " \u25be" : " \u25b4") : "")));
    this.head.replaceChildren(el("tr", {}, heading("rank", "rank", "", false), this.columns.map(([key, title, note, , , isLess]) => heading(key, title, note, isLess, key === "host" ? "name" : ""))));
    this.body.replaceChildren(...order.map((index) => this.row(index)));
  }

  row(index) {
    const row = this.ranks.ranks[index], isStraggler = index === this.straggler;
    return el("tr", { className: (index === this.rank ? "open " : "") + (isStraggler ? "straggler" : ""), "data-index": index, onclick: () => this.choose(index, this.step) },
      el("td", { "data-value": row.rank }, el("button", { "aria-pressed": String(index === this.rank), title: isStraggler ? "The straggler" : "Select it" }, (isStraggler ? "\u25b8 " : "") + row.rank, isStraggler && el("span", { className: "unseen" }, ", the straggler"))),
      this.columns.map(([key, , , value, text, isLess]) => el("td", { className: (key === "host" ? "name" : "") + (isLess ? " less" : ""), "data-value": value(row), title: key === "host" ? row.host : key === "clock" ? row.clock.by : undefined }, text(row))));
  }
}

/** The trace that the other pages show. */
function showTrace(number) {
  shownTrace = number;
  const chooser = $("#which select");
  if (chooser) chooser.selectedIndex = number;
}

/** A file's name as a shell reads it. */
const shellWord = (text) => /^[\w./:=@%+][\w./:=@%+-]*$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";

/** Which ranks the traces of this report are of, by their place among the compared: their names say it. */
function shownRanks(ranks) {
  return traces.map((trace) => ranks.numbers.indexOf(Number(/^rank (\d+) \(/.exec(trace.head.name)?.[1] ?? trace.head.metadata.find(([key]) => key === "distributedInfo")?.[1]?.rank ?? NaN)));
}
