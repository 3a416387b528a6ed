// main.js - the pages, what the address says (#page?key=value), and the keys.

const traces = [], pages = new Map();
let current = null, shownTrace = 0;

const PAGES = [
  ["ranks", "Ranks", async (trace, root) => { const ranks = await traces[0].ranks(); return new Ranks(root, ranks, shownRanks(ranks)); }],
  ["overview", "Overview", async (trace, root) => { await overviewPage(trace, root); }],
  ["timeline", "Timeline", async (trace, root) => new Timeline(trace, root), true],
  ["operators", "Operators", async (trace, root) => new Operators(trace, root, await trace.operators())],
  ["flame", "Flame graph", async (trace, root) => new Flame(root, await flameViews(trace))],
  ["modules", "Modules", async (trace, root) => { await modulesPage(trace, root); }],
  ["memory", "Memory", async (trace, root) => new Memory(trace, root, await trace.memory())],
  ["compare", "Compare", async (trace, root) => { await comparePage(traces, root, await traces[0].diff()); }],
  ["about", "About", async (trace, root) => { aboutPage(trace, root); }],
];

/** What the two traces of a report are to each other. */
const traceRoles = () => traces[0].head.ranks ? ["typical", "straggler"] : ["before", "after"];

/** Which of them this report has: all, or one alone. */
function availablePages() {
  const { only, ranks } = traces[0].head;
  return PAGES.filter(([key]) => only ? key === only : key === "ranks" ? ranks : key !== "compare" || traces.length > 1);
}

/** The page and what to show on it. Whatever the address says, even cut or mistyped, must not keep the report from opening. */
function readHash() {
  const [page, ...rest] = location.hash.slice(1).split("?"), state = {};
  for (const pair of rest.join("?").split("&")) {
    const at = pair.indexOf("=");
    if (at > 0) state[pair.slice(0, at)] = decoded(pair.slice(at + 1));
  }
  shownTrace = traces[Number(state.trace)] ? Number(state.trace) : 0;
  const chooser = $("#which select");
  if (chooser) chooser.selectedIndex = shownTrace;
  return [page, state];
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function setHash(page, state) {
  if (page === current) history.replaceState(null, "", address(page, state));
}

function address(page, state = {}) {
  const all = { ...state, trace: shownTrace > 0 ? shownTrace : undefined };
  const text = Object.entries(all).filter(([, value]) => value !== undefined && value !== "").map(([name, value]) => name + "=" + encodeURIComponent(value)).join("&");
  return "#" + page + (text ? "?" + text : "");
}

/** Draws now and whenever the canvas or the theme changes. */
const painters = new Set();
function repaint(canvas, paint) {
  const entry = { canvas, paint };
  painters.add(entry);
  let width = 0;
  const watch = new ResizeObserver(() => {
    const now = canvas.clientWidth;
    if (!canvas.isConnected) watch.disconnect(), painters.delete(entry); else if (now !== width) width = now, paint();
  });
  watch.observe(canvas);
}

async function openPage(name, state = {}, { remember = true } = {}) {
  const known = availablePages().find(([key]) => key === name) ?? availablePages()[0];
  const [key, , make, isFull] = known, id = key + "-" + shownTrace;
  current = key;
  hideTip();
  for (const button of $("#tabs").children) {
    button.setAttribute("aria-selected", String(button.dataset.page === key));
    button.tabIndex = button.dataset.page === key ? 0 : -1;
  }
  for (const page of pages.values()) page.root.hidden = page.id !== id, page.root.style.display = page.id !== id ? "none" : "";
  if (!pages.has(id)) {
    const page = { id, root: el("section", { className: "page" + (isFull ? " full" : ""), id: "page-" + id, role: "tabpanel", "aria-label": known[1] }) };
    pages.set(id, page);
    $("#pages").append(page.root);
    page.ready = make(traces[shownTrace], page.root).then((view) => { page.view = view; }, (error) => { page.root.append(el("p", { className: "warn" }, "This page could not be shown: " + error.message)); throw error; });
  }
  if (remember) history.pushState(null, "", address(key));
  await pages.get(id).ready;
  if (id !== current + "-" + shownTrace) return;
  const view = pages.get(id).view;
  if (view?.restore) view.restore(state);
  if (remember && Object.keys(state).length) setHash(key, state);
  view?.draw?.();
  if (key === "timeline") view.canvas.focus({ preventScroll: true });
}

function showHelp() {
  const dialog = $("#help"), row = (keys, text) => [el("dt", {}, keys.map((key) => [el("kbd", {}, key), " "])), el("dd", {}, text)];
  dialog.replaceChildren(el("h2", {}, "Keys"), el("dl", {},
    row(["1", "2", "\u2026"], "the pages, in the order of the tabs"), row(["/"], "search, or filter"), row(["n", "N"], "next and previous match"), row(["Esc"], "clear the selection"), row(["?"], "this help")),
    ...(traces[0].head.ranks ? [el("h2", {}, "Ranks"), el("dl", {}, row(["\u2190", "\u2192", "\u2191", "\u2193"], "in a chart, once it has the focus (Tab): another rank, another step"), row(["Enter"], "select that rank and step"), row(["Esc"], "the mean of all steps"))] : []),
    el("h2", {}, "Timeline"), el("dl", {},
      row(["w", "s"], "zoom in, zoom out; also Ctrl and the wheel"), row(["a", "d"], "move left, move right; also drag, or Shift and the wheel"), row(["\u2190", "\u2192"], "the span before, the span after"), row(["\u2191", "\u2193"], "what called it, what it called first"),
      row(["f"], "zoom to the selected span; also double-click"), row(["0"], "the whole trace"), row(["Shift", "drag"], "select a range and sum it; also drag along the time axis"), row(["click"], "on a thread's name: close or open it")),
    el("h2", {}, "Flame graph"), el("dl", {}, row(["\u2190", "\u2192"], "the frame beside it"), row(["\u2191", "\u2193"], "what called it, what it called most"), row(["Enter"], "that frame in full width; 0 or Esc: the whole")),
    el("h2", {}, "Memory"), el("dl", {}, row(["w", "s", "a", "d"], "zoom and move"), row(["p"], "around the peak"), row(["0"], "the whole")),
    el("div", { className: "tools" }, el("button", { className: "small", onclick: () => dialog.close() }, "Close")));
  dialog.showModal();
}

function listenKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.target.matches?.("input, select, textarea") || $("#help").open) return;
    if (event.key === "?") return showHelp();
    const view = pages.get(current + "-" + shownTrace)?.view;
    if (view?.key?.(event)) return;
    const number = Number(event.key), tabs = [...$("#tabs").children];
    if (number >= 1 && number <= tabs.length && !event.ctrlKey && !event.metaKey && !event.altKey) openPage(tabs[number - 1].dataset.page);
    if (event.target.parentElement === $("#tabs") && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
      const at = tabs.indexOf(event.target), next = tabs[(at + (event.key === "ArrowRight" ? 1 : -1) + tabs.length) % tabs.length];
      openPage(next.dataset.page);
      next.focus();
    }
  });
}

function retheme() {
  forgetTheme();
  for (const { paint } of painters) paint();
  for (const page of pages.values()) page.view?.draw?.();
}

/** Paper is white: what is painted dark is painted again, at once, for the browser does not wait. */
function listenPrint() {
  const { dataset } = document.documentElement;
  let before;
  const paint = () => { retheme(); pages.get(current + "-" + shownTrace)?.view?.paint?.(); };
  addEventListener("beforeprint", () => { before = dataset.theme; dataset.theme = "light"; paint(); });
  addEventListener("afterprint", () => { if (before) dataset.theme = before; else delete dataset.theme; paint(); });
}

async function start() {
  if (typeof DecompressionStream === "undefined") {
    $("#loading").textContent = "This browser cannot read the report: it needs Chrome 103, Firefox 113, Safari 16.4, or newer.";
    return;
  }
  const first = new Trace(0);
  first.head = asJson(await readBlob("head", 0));
  traces.push(first);
  if (document.readyState === "loading") await new Promise((resolve) => document.addEventListener("DOMContentLoaded", resolve, { once: true }));
  if (document.getElementById("head-1")) {
    const second = new Trace(1);
    second.head = asJson(await readBlob("head", 1));
    traces.push(second);
  }
  document.title = traces.map((trace) => trace.head.name.split("/").pop()).join(" and ") + " \u2013 mtprof";
  const [page, state] = readHash();
  $("#which").append(traces.length > 1
    ? el("select", { "aria-label": "Trace", onchange: (event) => { shownTrace = event.target.selectedIndex; openPage(current); } }, traces.map((trace, i) => el("option", { selected: i === shownTrace }, traceRoles()[i] + ": " + trace.head.name.split("/").pop())))
    : el("span", { title: first.head.name }, first.head.name.split("/").pop()));
  $("#tabs").append(...availablePages().map(([key, text]) => el("button", { role: "tab", "data-page": key, "aria-selected": "false", onclick: () => openPage(key) }, text)));
  $("#loading").remove();
  $("#keys").addEventListener("click", showHelp);
  $("#theme").addEventListener("click", () => {
    const isDark = getComputedStyle(document.documentElement).colorScheme.startsWith("dark") || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.dataset.theme = isDark ? "light" : "dark";
    retheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", retheme);
  addEventListener("popstate", () => { const [name, now] = readHash(); openPage(name, now, { remember: false }); });
  listenKeys();
  listenPrint();
  await openPage(page || (first.head.ranks ? "ranks" : traces.length > 1 ? "compare" : "overview"), state, { remember: false });
  document.documentElement.dataset.ready = "1";
}

start().catch((error) => {
  const notice = $("#loading") ?? $("#pages").appendChild(el("p", { className: "notice" }));
  notice.textContent = "The report could not be read: " + error.message;
  throw error;
});
