// base.js - small helpers: elements, texts, numbers. Text from a trace reaches the page as text nodes only.

const $ = (selector, from = document) => from.querySelector(selector);

/** An element: properties by name, "on..." handlers, "data" and "aria-..." attributes; children are nodes or texts. */
function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(made.style, value);
    else if (name in made && !name.startsWith("aria")) made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** Microseconds as in the table: 1.500ms. */
function microseconds(us) {
  const size = Math.abs(us);
  if (size >= 1e6) return (us / 1e6).toFixed(3) + "s";
  if (size >= 1e3) return (us / 1e3).toFixed(3) + "ms";
  return us.toFixed(3) + "us";
}
const time = (ns) => microseconds(ns / 1e3);

/** Of an axis: the longer it is, the larger. */
const SCALES = [[1, "ns"], [1e3, "us"], [1e6, "ms"], [1e9, "s"]], LONG_SCALES = [...SCALES, [60e9, "min"], [3600e9, "h"], [86400e9, "d"]];

/** For axes: no more digits than needed. */
function roundTime(ns) {
  const size = Math.abs(ns);
  const [scale, unit] = size >= 1e9 ? [1e9, "s"] : size >= 1e6 ? [1e6, "ms"] : size >= 1e3 ? [1e3, "us"] : [1, "ns"];
  return trimmed(ns / scale) + " " + unit;
}
/** All ticks of an axis in one unit, with as many digits as their step needs. */
function tickTexts(ticks, step, format = null) {
  if (format) return ticks.map(format);
  const size = Math.max(...ticks.map(Math.abs), step), scales = step % 60e9 === 0 ? LONG_SCALES.filter(([scale]) => step % scale === 0) : SCALES;
  const [scale, unit] = scales.findLast(([scale]) => size >= scale) ?? SCALES[0];
  const digits = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
  return ticks.map((tick) => tick === 0 ? "0" : (tick / scale).toFixed(digits) + " " + unit);
}
/** For scales and estimates: three digits. */
function shortTime(ns, digits = 3) {
  const [scale, unit] = ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "us"] : [1, "ns"];
  return Number((ns / scale).toPrecision(digits)) + " " + unit;
}
const trimmed = (value) => String(Number(value.toPrecision(10)));

const UNITS = ["B", "KB", "MB", "GB", "TB", "PB"];
function bytes(count, digits = 2) {
  let unit = 0, value = count;
  for (; Math.abs(value) >= 1024 && unit + 1 < UNITS.length; unit++) value /= 1024;
  return (unit === 0 ? String(value) : value.toFixed(digits)) + " " + UNITS[unit];
}
const grouped = (count) => String(count).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
const percent = (share, digits = 1) => (100 * share).toFixed(digits) + "%";
const plural = (count, word) => grouped(count) + " " + word + (count === 1 ? "" : "s");

/** Steps of 1, 2 or 5 times a power of ten, at most `most` of them. */
function roundTicks(from, to, most) {
  const width = to - from;
  if (!(width > 0) || most < 1) return { step: 1, ticks: [] };
  let step = 10 ** Math.floor(Math.log10(width / most));
  for (const factor of [1, 2, 5, 10]) if (width / (step * factor) <= most) { step *= factor; break; }
  const ticks = [];
  for (let i = Math.ceil(from / step); i * step <= to; i++) ticks.push(i * step);
  return { step, ticks };
}

/** The same for times in ns: from ten minutes on, in whole minutes, hours and days. */
function timeTicks(from, to, most) {
  const width = to - from, wanted = width / most;
  if (width < 600e9) return roundTicks(from, to, most);
  const minutes = [1, 2, 5, 10, 20, 30, 60, 120, 180, 360, 720, 1440].find((one) => one * 60e9 >= wanted);
  if (!minutes) {
    const { ticks, step } = roundTicks(from / 86400e9, to / 86400e9, most), days = Math.max(1, step);
    return { step: days * 86400e9, ticks: ticks.filter((tick) => tick % days === 0).map((tick) => tick * 86400e9) };
  }
  const step = minutes * 60e9, ticks = [];
  for (let i = Math.ceil(from / step); i * step <= to; i++) ticks.push(i * step);
  return { step, ticks };
}

/** Of a scale of square roots up to top: round values, far enough apart for their texts. */
function rootTicks(top) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(top)); top > 0 && power >= 0; power--)
    for (const factor of [5, 2, 1]) {
      const tick = factor * 10 ** power, at = Math.sqrt(tick / top), above = ticks.length ? Math.sqrt(ticks[0] / top) : 2;
      if (at <= 1 && above - at >= .22 && at >= .2) ticks.unshift(tick);
    }
  return [0, ...ticks];
}

/** The same for bytes: in powers of two from KB on. */
function byteTicks(to, most) {
  let unit = 1;
  while (to / unit >= 1024) unit *= 1024;
  return roundTicks(0, to / unit, most).ticks.map((tick) => tick * unit);
}

const debounce = (wait, call) => {
  let timer;
  return (...args) => { clearTimeout(timer); timer = setTimeout(() => call(...args), wait); };
};

/** Of a C++ function its name, without what it returns, its template's and its own arguments. */
function shortName(name) {
  const at = name.replaceAll("(anonymous namespace)", (hidden) => "_".repeat(hidden.length)).search(/[<(]/);
  return at > 8 && (name.includes("::") || name.startsWith("void ")) && /[)>]$/.test(name) ? name.slice(0, at).replace(/^void /, "") : name;
}

// ------------------------------------------------------------------------------------------------ tips

function showTip(text, x, y) {
  const tip = $("#tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = (y + 18 + box.height < innerHeight ? y + 16 : Math.max(4, y - box.height - 10)) + "px";
}
const hideTip = () => showTip("");

// ---------------------------------------------------------------------------------------------- colours

// Colours that people with any colour vision can tell apart (after Okabe and Ito, and Tol), with dark text on all of them.
const PALETTE = ["#88b4e0", "#f0b45c", "#7fc4a4", "#e39abf", "#c3b4e4", "#dccb62", "#8fd0d8", "#e8967a", "#b7c77a", "#b9a892", "#a3b6cf", "#d9a7a0"];
const CATEGORY_COLOURS = ["#3d8f6e", "#e0b13a", "#4f5b6f", "#a48bc8", "#d0674f", "#5fa3e0", "#2b5f95", "#a8adb5"]; // of memory, in the order of the categories

function hashed(text) {
  let hash = 2166136261;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  return (hash ^ hash >>> 15) >>> 0;
}
/** By what a name starts with, so that relatives (aten::add, aten::add_) look alike. */
const colourOf = (name) => PALETTE[hashed(name.replace(/[#:]?\s?\d+$/, "").replace(/_+$/, "")) % PALETTE.length];
