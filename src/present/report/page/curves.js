// curves.js - below and above the rows of the timeline: memory and counters over time, and marks.

/** From `first` on, `value[i]` from `time[i]` on. */
function memoryCurves(memory) {
  return (memory?.devices ?? []).filter((device) => device.time.length > 0 || device.before.some((size) => size > 0)).map((device) => {
    const first = device.before.reduce((sum, size) => sum + size, 0);
    let now = first;
    const value = Float64Array.from(device.change, (change) => now += change);
    return { name: "Memory of " + device.summary.device, time: device.time, value, first, format: (size) => bytes(size, 1), colour: CATEGORY_COLOURS[5] };
  });
}

function counterCurves(counters) {
  const found = new Map();
  for (const [name, , at, value] of counters ?? []) {
    if (!Number.isFinite(value)) continue;
    if (!found.has(name)) found.set(name, { name, time: [], value: [], first: 0, format: (number) => trimmed(number), colour: PALETTE[1] });
    found.get(name).time.push(at);
    found.get(name).value.push(value);
  }
  return [...found.values()];
}

const KINETO_MARKS = ["Iteration Start: PyTorch Profiler", "Record Window End"]; // of every trace

/** What happened at an instant, by track. */
function marksByTrack(counters) {
  const found = new Map();
  for (const entry of counters ?? []) {
    const [name, track, at] = entry;
    if (entry.length !== 3 || KINETO_MARKS.includes(name)) continue;
    if (!found.has(track)) found.set(track, []);
    found.get(track).push({ name, at });
  }
  for (const marks of found.values()) marks.sort((a, b) => a.at - b.at);
  return found;
}

function valueAt(curve, at) {
  const i = upperBound(curve.time, at) - 1;
  return i >= 0 ? curve.value[i] : curve.first;
}

function nearestMark(marks, at, reach) {
  let best = null;
  for (const mark of marks) if (Math.abs(mark.at - at) <= (best ? Math.abs(best.at - at) : reach)) best = mark;
  return best;
}

/** Of each pixel the value that is furthest from zero; below zero, too. */
function paintCurve(timeline, curve, y) {
  const { context, width } = timeline, { time: at, value, first, format } = curve, shown = theme(), tall = CURVE - HEAD - 10;
  curve.top ??= value.reduce((most, now) => Math.max(most, now), Math.max(first, 0));
  curve.bottom ??= value.reduce((least, now) => Math.min(least, now), Math.min(first, 0));
  const scale = tall / (curve.top - curve.bottom || 1), base = y + CURVE - 6 + curve.bottom * scale;
  const left = Math.max(0, Math.floor(timeline.x(0))), right = Math.min(width, Math.ceil(timeline.x(timeline.whole)));
  context.fillStyle = curve.colour;
  let i = upperBound(at, timeline.at(left)) - 1;
  for (let x = left; x < right; x++) {
    const next = upperBound(at, timeline.at(x + 1), i + 1);
    let most = i >= 0 ? value[i] : first;
    for (let k = i + 1, stride = Math.max(1, Math.floor((next - i) / 64)); k < next; k += stride) if (Math.abs(value[k]) > Math.abs(most)) most = value[k];
    i = next - 1;
    const high = most * scale;
    if (high !== 0) context.fillRect(x, high > 0 ? base - high : base, 1, Math.max(1, Math.abs(high)));
  }
  if (curve.bottom < 0) { context.fillStyle = shown.line; context.fillRect(left, base, right - left, 1); }
  const text = (curve.bottom < 0 ? format(curve.bottom) + " to " : "top: ") + format(curve.top);
  context.font = FONT;
  context.textAlign = "right";
  context.fillStyle = shown.back;
  context.globalAlpha = .85;
  context.fillRect(width - 14 - context.measureText(text).width, y + 2, width, HEAD - 4);
  context.globalAlpha = 1;
  context.fillStyle = shown.dim;
  context.fillText(text, width - 8, y + HEAD / 2);
  context.textAlign = "left";
}

/** Small triangles at the top of a row; one for those within three pixels. */
function paintMarks(timeline, marks, y) {
  const { context, width } = timeline;
  context.fillStyle = theme().warn;
  let last = -9;
  for (const mark of marks) {
    const x = timeline.x(mark.at);
    if (x < -4 || x > width + 4 || x - last < 3) continue;
    last = x;
    context.beginPath();
    context.moveTo(x - 4, y + HEAD - 5); // below the row's name
    context.lineTo(x + 4, y + HEAD - 5);
    context.lineTo(x, y + HEAD);
    context.fill();
  }
}
