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
const widths = new Map();

/** As much of a text as fits, with its width known once; "" if not even two letters do. */
function fitted(context, text, room) {
  let full = widths.get(text);
  if (full === undefined) widths.set(text, full = context.measureText(text.length > 300 ? text.slice(0, 300) : text).width);
  if (full <= room) return text.length > 300 ? text.slice(0, 300) : text;
  const letters = Math.floor(Math.min(text.length, 300) * (room - 8) / full);
  return letters < 2 ? "" : text.slice(0, letters) + "\u2026";
}

/** A time axis with round ticks; `scale` is pixels per ns, `from` the time at x0. */
function drawAxis(context, { x, y, width, height, from, to, grid }) {
  const { ticks, step } = roundTicks(from, to, Math.max(2, Math.floor(width / 120))), texts = tickTexts(ticks, step), shown = theme(), scale = width / (to - from);
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

/** Bars: [{ from, to, parts: [{ value, colour }], title }], stacked. Returns where each is. */
function drawBars(canvas, { bars, top, format, height = 170, highlight }) {
  const { context, width } = prepare(canvas, height), shown = theme(), left = 64, bottom = 22, plot = height - bottom - 8, room = width - left - 8;
  context.fillStyle = shown.back;
  context.fillRect(0, 0, width, height);
  context.font = FONT;
  context.textBaseline = "middle";
  const { ticks, step: apart } = roundTicks(0, top, 4), texts = tickTexts(ticks, apart, format);
  ticks.forEach((tick, i) => {
    const y = Math.round(8 + plot - tick / top * plot) + .5;
    context.fillStyle = shown.line;
    context.fillRect(left, y - .5, room, 1);
    context.fillStyle = shown.dim;
    context.textAlign = "right";
    context.fillText(texts[i], left - 6, y);
  });
  const step = room / Math.max(bars.length, 1), thick = Math.max(1, Math.min(46, step - (step > 4 ? 2 : 0)));
  const every = Math.ceil(46 / step);
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
    if (i % every === 0) {
      context.fillStyle = shown.dim;
      context.textAlign = "center";
      context.fillText(bar.label, left + (i + .5) * step, height - 10);
    }
  });
  return (x) => { const i = Math.floor((x - left) / step); return i >= 0 && i < bars.length ? i : -1; };
}
