// ranks_data.js - what src/present/report/ranks_page.c wrote: what `mtprof ranks --json` says, and the steps as columns.

/** Times of a step, in the order of the bars; each but the first two is in the words of docs/merge.md. */
const RANK_PARTS = [
  ["compute", "compute", "#88b4e0", (t) => Math.max(0, t.compute - t.hidden)],
  ["hidden", "compute, and communication that it hides", "#4f86b8", (t) => Math.min(t.compute, t.hidden)],
  ["copies", "copies", "#62548a", (t) => t.copies],
  ["waiting", "waiting for later ranks", "#d0674f", (t) => t.waiting],
  ["transfer", "transfer", "#f0c75c", (t) => t.transfer],
  ["idle", "idle", "#b9bec8", (t) => t.idle]];

/** What a line can show, and the table's columns of time. */
const RANK_MEASURES = [
  ["wall", "step", "How long a step takes"], ["compute", "compute", "Kernels; without device work, operators outside communication"],
  ["exposed", "exposed", "Communication while nothing is computed: waiting + transfer"], ["waiting", "waiting", "Of exposed communication: before the last rank has entered the call"],
  ["transfer", "transfer", "Of exposed communication: after that"], ["idle", "idle", "Nothing runs"], ["late", "late", "How much later than the median rank it enters calls"]];

/** Ranks by number; steps that all of them have; in each cell (rank x step) the place of its times in the columns. Null: the report has none. */
function makeRanks(data) {
  if (!data) return null;
  const { json, rest } = splitJson(data), columns = byName(readColumns(data, rest)), unit = numbers(columns.unit)[0], count = numbers(columns.count);
  const times = Object.fromEntries(["wall", "compute", "exposed", "hidden", "waiting", "transfer", "copies", "idle", "late"].map((name) => [name, signed(columns[name])]));
  if (unit !== 1) for (const column of Object.values(times)) for (let i = 0; i < column.length; i++) column[i] *= unit;
  for (let i = 0; i < times.wall.length; i++) { // these two hold what is left of the others
    times.transfer[i] += times.exposed[i] - times.waiting[i];
    times.idle[i] += times.wall[i] - times.compute[i] - times.exposed[i] - times.copies[i];
  }
  const { of, steps } = commonSteps(count, signed(columns.number));
  return { ...json, unit, steps, of, times, lists: new Map(), numbers: json.ranks.map((row) => row.rank), means: json.ranks.map((row) => meanTimes(row.per_step)) };
}

/** A mean step of the JSON as the columns have it: in ns. */
function meanTimes(step) {
  const ns = (name) => Math.round(step[name + "_us"] * 1e3);
  return { wall: ns("wall"), compute: ns("compute"), exposed: ns("exposed"), hidden: ns("communication") - ns("exposed"), waiting: ns("waiting"), transfer: ns("transfer"), copies: ns("copies"), idle: ns("idle"), late: ns("late") };
}

/** Steps that are compared (src/analyze/ranks/judge.c): ascending numbers that all ranks have. of[rank * steps + step]: the place in the columns. */
function commonSteps(count, gaps) {
  const firsts = [], places = [];
  let at = 0;
  for (const many of count) {
    const own = new Map();
    let number = 0;
    firsts.push(own);
    for (let i = 0; i < many; i++, at++) {
      number += gaps[at] + 1;
      if (!own.has(number)) own.set(number, at);
    }
  }
  const steps = [];
  for (const number of firsts[0]?.keys() ?? []) if ((steps.length === 0 || number > steps[steps.length - 1]) && firsts.every((own) => own.has(number))) steps.push(number);
  for (const own of firsts) for (const number of steps) places.push(own.get(number));
  return { steps, of: Uint32Array.from(places) };
}

/** All times of a rank in a step; of a step below 0, the mean. */
function rankTimes(ranks, rank, step) {
  if (step < 0) return ranks.means[rank];
  const place = ranks.of[rank * ranks.steps.length + step];
  return Object.fromEntries(Object.entries(ranks.times).map(([name, column]) => [name, column[place]]));
}

/** Of each step: the least, the median and the most of all ranks. */
function rankSpread(ranks, measure) {
  if (!ranks.lists.has(measure)) {
    const { steps, of, times } = ranks, column = times[measure], ranksCount = ranks.ranks.length, sorted = new Float64Array(ranksCount);
    const spread = { least: new Float64Array(steps.length), middle: new Float64Array(steps.length), most: new Float64Array(steps.length) };
    for (let step = 0; step < steps.length; step++) {
      for (let rank = 0; rank < ranksCount; rank++) sorted[rank] = column[of[rank * steps.length + step]];
      sorted.sort();
      spread.least[step] = sorted[0];
      spread.middle[step] = (sorted[ranksCount - 1 >> 1] + sorted[ranksCount >> 1]) / 2;
      spread.most[step] = sorted[ranksCount - 1];
    }
    ranks.lists.set(measure, spread);
  }
  return ranks.lists.get(measure);
}

/** The steps of one rank. */
function rankLine(ranks, measure, rank) {
  const { steps, of, times } = ranks;
  return Float64Array.from(steps, (_, step) => times[measure][of[rank * steps.length + step]]);
}

const LATE_LEAST = .05; // of a step: what is less is never dark

/** What the darkest colour of the map stands for: the latest of all cells; if a few steps are far worse than all others, the latest of those others. */
function lateTop(ranks) {
  if (ranks.lists.has("top")) return ranks.lists.get("top");
  const worst = [...rankSpread(ranks, "late").most].sort((a, b) => b - a), most = worst[0] ?? 0, floor = LATE_LEAST * median(ranks.means.map((t) => t.wall)), usual = Math.max(floor, worst[Math.min(worst.length - 1, Math.max(1, Math.floor(worst.length / 50)))] ?? 0);
  const isCut = worst.length >= 5 && most > 4 * usual, found = { top: isCut ? usual : Math.max(floor, most), most, isCut };
  ranks.lists.set("top", found);
  return found;
}
