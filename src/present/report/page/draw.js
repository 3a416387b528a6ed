// draw.js - canvases: sharp on any screen, in the page's colours.

/** Sizes a canvas to its place; returns its context in CSS pixels. */
function prepare(canvas, height) {
  const ratio = devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  const wide = Math.max(1, Math.round(box.width)), high = Math.max(1, Math.round(height ?? box.height));
  if (height !== undefined) canvas.style.height = high + "px";
  if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(high * ratio);
  }
  const context = canvas.getContext("2d", { alpha: false });
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width: wide, height: high };
}

let colours = null;
/** The page's colours, read once for each theme. */
function theme() {
  if (!colours) {
    const style = getComputedStyle(document.documentElement);
    colours = Object.fromEntries(["back", "panel", "line", "text", "dim", "accent", "select", "hover", "warn"].map((name) => [name, style.getPropertyValue("--" + name).trim()]));
  }
  return colours;
}
const forgetTheme = () => { colours = null; };

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
const LETTERS_MAX = 300, ellipsis = "\u2026", letterWidths = new Map(), widths = new Map();

/** How far each letter of a text reaches, measured once; whole code points, so that none is cut in two. */
function reaches(context, text) {
  let found = widths.get(text);
  if (found) return found;
  const letters = Array.from(text.slice(0, LETTERS_MAX)), ends = new Float32Array(letters.length);
  let at = 0;
  letters.forEach((letter, i) => {
    if (!letterWidths.has(letter)) letterWidths.set(letter, context.measureText(letter).width);
    ends[i] = at += letterWidths.get(letter);
  });
  if (widths.size > 50000) widths.clear();
  widths.set(text, found = { letters, ends, isWhole: text.length <= LETTERS_MAX });
  return found;
}

/** As much of a text as fits; "" if not even two letters do. */
function fitted(context, text, room) {
  const { letters, ends, isWhole } = reaches(context, text);
  if (letters.length === 0 || (isWhole && ends[letters.length - 1] <= room)) return text;
  if (!letterWidths.has(ellipsis)) letterWidths.set(ellipsis, context.measureText(ellipsis).width);
  const fit = upperBound(ends, room - letterWidths.get(ellipsis));
  return fit < 2 ? "" : letters.slice(0, fit).join("") + ellipsis;
}

/** A time axis with round ticks; `scale` is pixels per ns, `from` the time at x0. */
function drawAxis(context, { x, y, width, height, from, to, grid }) {
  const { ticks, step } = timeTicks(from, to, Math.max(3, Math.floor(width / (width < 500 ? 64 : 120)))), texts = tickTexts(ticks, step), shown = theme(), scale = width / (to - from);
  context.font = FONT;
  context.textBaseline = "middle";
  context.textAlign = "left";
  ticks.forEach((tick, i) => {
    const at = Math.round(x + (tick - from) * scale) + .5, text = texts[i];
    context.fillStyle = shown.line;
    context.fillRect(at - .5, y, 1, grid ?? height);
    context.fillStyle = shown.dim;
    if (at + 4 + context.measureText(text).width <= x + width) context.fillText(text, at + 4, y + height / 2);
  });
}

/** Bars: [{ label, parts: [{ value, colour }], cut }], stacked; `cut` is told above a bar that is longer than shown. A label at the edge is of where its bar begins.
 * Returns which bar is at an x. */
function drawBars(canvas, { bars, top, format, height = 170, highlight, isEdge = false }) {
  const { context, width } = prepare(canvas, height), shown = theme(), left = 64, bottom = 22, plot = height - bottom - 8, room = width - left - 8;
  context.fillStyle = shown.back;
  context.fillRect(0, 0, width, height);
  context.font = FONT;
  context.textBaseline = "middle";
  const { ticks, step: apart } = roundTicks(0, top, 5), texts = tickTexts(ticks, apart, format);
  ticks.forEach((tick, i) => {
    const y = Math.round(8 + plot - tick / top * plot) + .5;
    context.fillStyle = shown.line;
    context.fillRect(left, y - .5, room, 1);
    context.fillStyle = shown.dim;
    context.textAlign = "right";
    context.fillText(texts[i], left - 6, y);
  });
  const step = room / Math.max(bars.length, 1), thick = Math.max(1, Math.min(46, step - (step > 4 ? 2 : 0)));
  const widest = Math.max(46, ...[bars[0], bars[bars.length - 1]].map((bar) => context.measureText(bar?.label ?? "").width + 12)), every = isEdge || step >= widest ? 1 : roundTicks(0, Math.ceil(widest / step), 1).step;
  const first = Math.max(0, bars.findIndex((bar) => Number(bar.label) % every === 0)); // round numbers, as far as they follow each other
  bars.forEach((bar, i) => {
    let y = 8 + plot;
    const x = left + i * step + (step - thick) / 2;
    for (const part of bar.parts) {
      const tall = part.value / top * plot;
      context.fillStyle = part.colour;
      context.fillRect(x, y - tall, thick, tall);
      y -= tall;
    }
    if (highlight?.(i)) {
      context.strokeStyle = shown.warn;
      context.lineWidth = 2;
      context.strokeRect(x - 1, y - 1, thick + 2, 8 + plot - y + 1);
    }
    if (bar.cut) drawCut(context, { x, y, thick, text: bar.cut, right: left + room });
    if (i % every === first % every && bar.label) {
      context.fillStyle = shown.dim;
      context.textAlign = "center";
      context.fillText(bar.label, isEdge ? left + i * step : Math.min(left + (i + .5) * step, width - context.measureText(bar.label).width / 2), height - 10);
      if (isEdge) context.fillRect(Math.round(left + i * step), 8 + plot, 1, 4);
    }
  });
  return (x) => { const i = Math.floor((x - left) / step); return i >= 0 && i < bars.length ? i : -1; };
}

/** A gap in a bar that goes on, and how long it really is. */
function drawCut(context, { x, y, thick, text, right }) {
  const shown = theme(), isLeft = x + thick + 8 + context.measureText(text).width > right;
  context.fillStyle = shown.back;
  context.fillRect(x - 1, y + 8, thick + 2, 3);
  context.fillStyle = shown.text;
  context.textAlign = isLeft ? "right" : "left";
  context.fillText(text, isLeft ? x - 6 : x + thick + 6, y + 8);
}
