// ranks_draw.js - the charts of the page of ranks: lateness by rank and step, bars by rank, a line over the steps.
// Whatever the numbers, a chart has at most as many cells as pixels: each shows the worst, or the mean, of what falls on it.

const RANK_LEFT = 52, RANK_TOP = 20, RANK_BOTTOM = 24, RANK_ROWS = 512, STEP_WIDE = 110; // pixels, pixels, pixels, rows, pixels
const ROUND_COUNTS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];
const LATE_LIGHT = ["#f1f2f4", "#fbd9b0", "#ee9c55", "#c8502f", "#6d1523"], LATE_DARK = ["#262a32", "#5a3620", "#a8562a", "#ec9c4a", "#fff0b8"]; // by brightness alone, too

const isDarkTheme = () => parseInt(theme().back.slice(1, 3), 16) < 128;
const lateStops = () => isDarkTheme() ? LATE_DARK : LATE_LIGHT;
const rgbOf = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

/** 256 colours from none to the top, as pixels. */
function latePixels() {
  const stops = lateStops().map(rgbOf), made = new Uint32Array(256);
  for (let i = 0; i < 256; i++) {
    const at = i / 255 * (stops.length - 1), k = Math.min(stops.length - 2, Math.floor(at)), part = at - k;
    const [r, g, b] = stops[k].map((from, c) => Math.round(from + (stops[k + 1][c] - from) * part));
    made[i] = (255 << 24 | b << 16 | g << 8 | r) >>> 0;
  }
  return made;
}
/** Where a lateness is on the scale, 0 to 1: its square root, so that what is small is not nothing. */
const lateShare = (late, top) => top > 0 ? Math.min(1, Math.sqrt(Math.max(0, late) / top)) : 0;

/** Rows of the charts of all ranks: `per` ranks on each. */
function rankRows(count) {
  const per = Math.ceil(count / RANK_ROWS), rows = Math.ceil(count / per), tall = Math.max(1, Math.min(22, Math.floor(480 / rows)));
  return { per, rows, tall, height: rows * tall };
}

function beginChart(canvas, height, room = 8) {
  const { context, width } = prepare(canvas, height);
  context.fillStyle = theme().back;
  context.fillRect(0, 0, width, height);
  context.font = FONT;
  context.textBaseline = "middle";
  context.textAlign = "left";
  return { context, plot: { x: RANK_LEFT, y: RANK_TOP, width: Math.max(1, width - RANK_LEFT - room), height: height - RANK_TOP - RANK_BOTTOM } };
}

/** Ranks along the left edge: those that fit, and always the marked ones. */
function drawRankNames(context, plot, numbersOf, { rank, straggler }) {
  const shown = theme(), { per, tall } = rankRows(numbersOf.length), every = Math.max(1, Math.ceil(15 / tall)) * per, at = (index) => plot.y + (Math.floor(index / per) + .5) * tall;
  const marked = [straggler, rank].filter((index, i, all) => index >= 0 && all.indexOf(index) === i), free = (index) => marked.every((other) => other === index || Math.abs(at(other) - at(index)) >= 13);
  const name = (index, colour, mark) => {
    context.fillStyle = colour;
    context.textAlign = "right";
    context.fillText((mark ? "\u25b8 " : "") + numbersOf[index], plot.x - 6, at(index));
  };
  context.textAlign = "right";
  context.fillStyle = shown.dim;
  context.fillText("rank", plot.x - 6, RANK_TOP - 13);
  const step = ROUND_COUNTS.find((one) => one >= every) ?? every;
  for (let index = 0; index < numbersOf.length; index += step) if (!marked.includes(index) && free(index)) name(index, shown.dim);
  marked.forEach((index, i) => { if (i === 0 || Math.abs(at(marked[0]) - at(index)) >= 13) name(index, index === straggler ? shown.warn : shown.accent, index === straggler); });
  if (rank >= 0) {
    const y = plot.y + Math.floor(rank / per) * tall;
    context.fillStyle = shown.accent;
    context.fillRect(plot.x - 4, y, 3, Math.max(2, tall));
  }
  context.textAlign = "left";
}

function drawStepNames(context, plot, steps, wide) {
  const every = Math.max(1, Math.ceil(46 / wide)), step = ROUND_COUNTS.find((one) => one >= every) ?? every, y = plot.y + plot.height + 12;
  context.fillStyle = theme().dim;
  if (steps[0] < 0) {
    context.fillText("the whole trace", plot.x, y);
    return;
  }
  context.textAlign = "center";
  steps.forEach((number, i) => {
    const at = plot.x + (i + .5) * wide;
    if (steps.length <= 8 || wide >= 46 || number % step === 0) context.fillText(String(number), Math.min(at, plot.x + plot.width - 8), y);
  });
  context.textAlign = "right";
  context.fillText("step", plot.x - 6, y);
  context.textAlign = "left";
}

/** How late each rank is in each step. Returns which cell is at a place, and where a cell is. */
function drawLate(canvas, ranks, view) {
  const { steps, of, times } = ranks, count = ranks.numbers.length, { per, rows, tall, height } = rankRows(count), { context, plot } = beginChart(canvas, height + RANK_TOP + RANK_BOTTOM), shown = theme();
  plot.width = Math.min(plot.width, steps.length * STEP_WIDE);
  const wide = plot.width / steps.length, columns = Math.min(steps.length, Math.floor(plot.width)), { top } = lateTop(ranks), colours = latePixels(), first = (column) => Math.floor(column * steps.length / columns);
  const image = new ImageData(columns, rows), pixels = new Uint32Array(image.data.buffer), late = times.late;
  const worst = (column, row) => {
    let best = -1, most = -1;
    for (let rank = row * per; rank < Math.min(count, (row + 1) * per); rank++)
      for (let step = first(column), end = Math.max(step + 1, first(column + 1)); step < end; step++) {
        const cell = rank * steps.length + step, now = late[of[cell]];
        if (now > most) most = now, best = cell;
      }
    return best;
  };
  for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) pixels[row * columns + column] = colours[Math.round(255 * lateShare(late[of[worst(column, row)]], top))];
  const small = el("canvas", { width: columns, height: rows });
  small.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, plot.x, plot.y, plot.width, plot.height);
  context.fillStyle = shown.back;
  const hasGaps = tall >= 6 && wide >= 6;
  for (let row = 1; row < rows && hasGaps; row++) context.fillRect(plot.x, plot.y + row * tall - .5, plot.width, 1);
  for (let step = 1; step < steps.length && hasGaps; step++) context.fillRect(plot.x + step * wide - .5, plot.y, 1, plot.height);
  const box = (rank, step) => [plot.x + step * wide, plot.y + Math.floor(rank / per) * tall, Math.max(2, wide), Math.max(2, tall)];
  drawRankNames(context, plot, ranks.numbers, view);
  drawStepNames(context, plot, steps, wide);
  if (view.since >= 0) drawSince(context, plot, plot.x + view.since * wide, "since step " + steps[view.since]);
  if (view.step >= 0) outline(context, [plot.x + view.step * wide, plot.y, Math.max(2, wide), plot.height], shown.text);
  if (view.cursor) outline(context, box(view.cursor.rank, view.cursor.step), shown.accent, true);
  return {
    box, wide,
    hit: (x, y) => {
      // rows of a pixel or two cannot be pointed at: the worst cell near the mouse is meant
      const column = Math.floor((x - plot.x) / plot.width * columns), row = Math.floor((y - plot.y) / tall), reach = tall < 4 ? Math.ceil(2 / tall) : 0, found = [];
      for (let r = Math.max(0, row - reach); r <= Math.min(rows - 1, row + reach) && column >= 0 && column < columns; r++) found.push(worst(column, r));
      if (found.length === 0) return null;
      const cell = found.reduce((best, one) => late[of[one]] > late[of[best]] ? one : best), from = first(column), to = Math.max(from, first(column + 1) - 1);
      return { rank: Math.floor(cell / steps.length), step: cell % steps.length, isOne: per === 1 && reach === 0 && from === to };
    } };
}

/** A frame that is seen on any colour. */
function outline(context, [x, y, width, height], colour, isThick = false) {
  context.lineWidth = isThick ? 5 : 3;
  context.strokeStyle = theme().back;
  context.strokeRect(x, y, width, height);
  context.lineWidth = isThick ? 2.5 : 1.5;
  context.strokeStyle = colour;
  context.strokeRect(x, y, width, height);
}

function drawSince(context, plot, x, text) {
  const shown = theme(), isLeft = x + 8 + context.measureText(text).width > plot.x + Math.max(plot.width, 200);
  context.strokeStyle = shown.text;
  context.lineWidth = 1;
  context.setLineDash([4, 3]);
  context.beginPath();
  context.moveTo(Math.round(x) + .5, 4);
  context.lineTo(Math.round(x) + .5, plot.y + plot.height);
  context.stroke();
  context.setLineDash([]);
  context.fillStyle = shown.text;
  context.textAlign = isLeft ? "right" : "left";
  context.fillText(text, x + (isLeft ? -5 : 5), RANK_TOP - 10);
  context.textAlign = "left";
}

/** Where the time of each rank goes, in a step or on average. Returns which rank is at a place. */
function drawRankBars(canvas, ranks, view) {
  const count = ranks.numbers.length, { per, rows, tall, height } = rankRows(count), { context, plot } = beginChart(canvas, height + RANK_TOP + RANK_BOTTOM, 14);
  const all = ranks.numbers.map((_, rank) => rankTimes(ranks, rank, view.step)), top = all.reduce((most, t) => Math.max(most, RANK_PARTS.reduce((sum, [, , , part]) => sum + part(t), 0)), 1);
  const thick = tall >= 6 ? tall - 2 : tall;
  for (let row = 0; row < rows; row++) {
    const group = all.slice(row * per, (row + 1) * per);
    let x = plot.x;
    for (const [, , colour, part] of RANK_PARTS) {
      const wide = group.reduce((sum, t) => sum + part(t), 0) / group.length / top * plot.width;
      context.fillStyle = colour;
      context.fillRect(x, plot.y + row * tall + (tall - thick) / 2, wide, thick);
      x += wide;
    }
  }
  drawTimesBelow(context, plot, top);
  drawRankNames(context, plot, ranks.numbers, view);
  if (view.rank >= 0 && tall >= 6) {
    const y = plot.y + Math.floor(view.rank / per) * tall;
    if (tall >= 14) outline(context, [plot.x, y, plot.width, tall], theme().accent);
    else for (const edge of [y - .5, y + tall - .5]) context.fillStyle = theme().accent, context.fillRect(plot.x - 4, edge, plot.width + 4, 1.5);
  }
  return { hit: (x, y) => { const row = Math.floor((y - plot.y) / tall); return row >= 0 && row < rows && x >= 0 ? Math.min(count - 1, row * per) : -1; }, box: (rank) => [plot.x, plot.y + Math.floor(rank / per) * tall, plot.width, tall] };
}

/** An axis of times from 0 on, below the chart. */
function drawTimesBelow(context, plot, top) {
  const { ticks, step } = roundTicks(0, top, Math.max(2, Math.floor(plot.width / 70))), texts = tickTexts(ticks, step), shown = theme();
  context.textAlign = "center";
  ticks.forEach((tick, i) => {
    const at = Math.round(plot.x + tick / top * plot.width);
    context.fillStyle = shown.line;
    context.fillRect(at, plot.y + plot.height + 1, 1, 4);
    context.fillStyle = shown.dim;
    context.fillText(texts[i], Math.min(at, plot.x + plot.width + 14 - context.measureText(texts[i]).width / 2), plot.y + plot.height + 14);
  });
  context.textAlign = "left";
}

/** Numbers of many steps as at most `most` bins: of each the least, the mean and the most. */
function binned(values, most) {
  const bins = Math.min(values.length, Math.max(1, most)), least = new Float64Array(bins), mean = new Float64Array(bins), high = new Float64Array(bins);
  for (let bin = 0; bin < bins; bin++) {
    const from = Math.floor(bin * values.length / bins), to = Math.max(from + 1, Math.floor((bin + 1) * values.length / bins)), part = values.subarray(from, to);
    least[bin] = part.reduce((a, b) => Math.min(a, b), Infinity);
    high[bin] = part.reduce((a, b) => Math.max(a, b), -Infinity);
    mean[bin] = part.reduce((a, b) => a + b, 0) / part.length;
  }
  return { least, mean, high };
}

/** One rank's steps beside the median rank's, and the range of all. Returns which step is at an x, and the time above which lines are cut (0: none). */
function drawRankLine(canvas, ranks, { measure, rank, step, since }) {
  const { context, plot } = beginChart(canvas, 190), shown = theme(), { steps } = ranks, mine = rankLine(ranks, measure, rank), spread = rankSpread(ranks, measure);
  const tops = [...spread.most].sort((a, b) => b - a), usual = tops[Math.min(tops.length - 1, Math.max(1, Math.floor(tops.length / 50)))] ?? 0, isCut = tops.length >= 5 && usual > 0 && tops[0] > 4 * usual;
  const most = isCut ? usual * 1.3 : tops[0], least = spread.least.reduce((a, b) => Math.min(a, b), most), low = least < .6 * most ? 0 : Math.max(0, least - (most - least) * .4 - most * .01), top = most + (most - low) * .06 || 1;
  const x = (at) => plot.x + at * plot.width, y = (ns) => plot.y + plot.height * (1 - (ns - low) / (top - low));
  const { ticks, step: apart } = roundTicks(low, top, 4), texts = tickTexts(ticks, apart);
  ticks.forEach((tick, i) => {
    context.fillStyle = shown.line;
    context.fillRect(plot.x, Math.round(y(tick)), plot.width, 1);
    context.fillStyle = shown.dim;
    context.textAlign = "right";
    context.fillText(texts[i], plot.x - 6, y(tick));
  });
  context.textAlign = "left";
  context.save();
  context.beginPath();
  context.rect(plot.x, plot.y - 2, plot.width, plot.height + 4);
  context.clip();
  const lines = { mine: binned(mine, Math.floor(plot.width)), least: binned(spread.least, Math.floor(plot.width)), middle: binned(spread.middle, Math.floor(plot.width)), most: binned(spread.most, Math.floor(plot.width)) };
  fillBetween(context, lines.least.least, lines.most.high, x, y, shown.line, .6);
  strokeLine(context, lines.middle.mean, x, y, shown.text, [5, 4], 1.5);
  if (lines.mine.mean.length < steps.length) fillBetween(context, lines.mine.least, lines.mine.high, x, y, shown.accent, .45);
  strokeLine(context, lines.mine.mean, x, y, shown.accent, [], 2);
  if (steps.length <= 80) for (let i = 0; i < steps.length; i++) context.fillStyle = shown.accent, context.fillRect(x((i + .5) / steps.length) - 2.5, y(mine[i]) - 2.5, 5, 5);
  context.restore();
  drawStepNames(context, plot, steps, plot.width / steps.length);
  if (since > 0) drawSince(context, plot, x(since / steps.length), "");
  if (step >= 0) outline(context, [x(step / steps.length), plot.y, Math.max(2, plot.width / steps.length), plot.height], shown.text);
  return { hit: (at) => { const i = Math.floor((at - plot.x) / plot.width * steps.length); return i >= 0 && i < steps.length ? i : -1; }, cut: isCut ? most : 0 };
}

function fillBetween(context, low, high, x, y, colour, alpha) {
  const at = (i) => x((i + .5) / low.length);
  context.beginPath();
  if (low.length === 1) context.rect(x(0), y(high[0]), x(1) - x(0), Math.max(1, y(low[0]) - y(high[0])));
  for (let i = 0; i < low.length && low.length > 1; i++) context.lineTo(at(i), y(high[i]) - .5);
  for (let i = low.length - 1; i >= 0 && low.length > 1; i--) context.lineTo(at(i), y(low[i]) + .5);
  context.fillStyle = colour;
  context.globalAlpha = alpha;
  context.fill();
  context.globalAlpha = 1;
}

function strokeLine(context, values, x, y, colour, dash, thick) {
  context.beginPath();
  if (values.length === 1) context.moveTo(x(0), y(values[0])), context.lineTo(x(1), y(values[0]));
  else values.forEach((value, i) => context.lineTo(x((i + .5) / values.length), y(value)));
  context.strokeStyle = colour;
  context.lineWidth = thick;
  context.setLineDash(dash);
  context.stroke();
  context.setLineDash([]);
}
