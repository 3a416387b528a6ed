// compare.js - two traces: what got slower or faster, with the confidence that `mtprof diff` has.

const RANK = { slower: 0, "more calls": 1, new: 2, faster: 3, "fewer calls": 4, gone: 5, uncertain: 6, same: 7 };

async function comparePage(traces, root, { diff, words }) {
  const [before, after] = traces.map((trace) => trace.head.name);
  const change = (value) => (value >= 0 ? "+" : "\u2212") + percent(Math.abs(value));
  const card = (value, text, name) => el("div", { className: "card" }, el("b", { className: name ?? "" }, value), el("span", {}, text));
  root.append(el("p", { className: "note" }, "From ", el("code", {}, before), " to ", el("code", {}, after), ". Changes that noise explains are called uncertain, or the same."),
    el("div", { className: "cards" }, diff.steps_before > 0 && diff.steps_after > 0 && card(change(diff.step_change), "time of a step: " + microseconds(diff.step_before) + " to " + microseconds(diff.step_after), diff.step_verdict),
      card(grouped(diff.slower), "slower", diff.slower ? "slower" : ""), card(grouped(diff.faster), "faster", diff.faster ? "faster" : ""), card(grouped(diff.new), "new"), card(grouped(diff.gone), "gone"), card(grouped(diff.same), "same"),
      diff.has_drift && Math.abs(diff.drift) >= 5e-4 && card(change(diff.drift), "in all rows alike: taken for the machine's, and not counted")));
  const [first, second] = traces[0].head.ranks ? [", typical", "straggler"] : [" before", "after"];
  const hasSteps = diff.steps_before > 0 && diff.steps_after > 0, work = hasSteps ? 1 : workOf(diff.rows);
  if (words) root.append(el("h2", {}, "In words"), el("div", { className: "words" }, words));
  const weight = (row) => Math.abs(row.step_time_after - row.step_time_before);
  let onlyChanged = diff.rows.some((row) => row.verdict !== "same" && row.verdict !== "uncertain");
  const body = el("tbody"), toggle = el("button", { className: "small", "aria-pressed": String(onlyChanged), onclick: () => { onlyChanged = !onlyChanged; toggle.setAttribute("aria-pressed", onlyChanged); fill(); } }, "Only what changed");
  const fill = () => {
    const rows = diff.rows.filter((row) => !onlyChanged || (row.verdict !== "same" && row.verdict !== "uncertain")).sort((a, b) => weight(b) - weight(a) || RANK[a.verdict] - RANK[b.verdict]);
    body.replaceChildren(...rows.slice(0, 500).map((row) => el("tr", {},
      el("td", { className: "name", title: row.key }, el("button", { title: "Find its calls in the timeline of the trace that has them", onclick: () => showRow(row) }, (row.is_device ? "\u25a3 " : "") + (shortName(row.key) || "(no name)"))), el("td", { className: row.verdict === "slower" || row.verdict === "more calls" ? "slower" : row.verdict === "faster" || row.verdict === "fewer calls" ? "faster" : "" }, row.verdict),
      el("td", {}, row.count_before ? microseconds(row.time_before) : ""), el("td", {}, row.count_after ? microseconds(row.time_after) : ""), el("td", {}, row.count_before && row.count_after ? change(row.change) : ""),
      el("td", {}, row.count_before && row.count_after ? change(row.low) + " to " + change(row.high) : ""), el("td", {}, grouped(row.count_before)), el("td", {}, grouped(row.count_after)),
      el("td", {}, (row.step_time_after >= row.step_time_before ? "+" : "\u2212") + microseconds(weight(row))))));
    if (rows.length === 0) body.append(el("tr", {}, el("td", { className: "name", colSpan: 9 }, "Nothing changed beyond noise.")));
  };
  fill();
  root.append(el("div", { className: "tools", style: { marginTop: "14px" } }, toggle), el("div", { className: "scroll wide whole" }, el("table", {}, el("thead", {}, el("tr", {},
    [["Name", "name"], ["Verdict"], ["A call" + first], [second], ["Change"], ["Confidence bounds"], ["Calls" + first], [second], [hasSteps ? "Own time per step" : "Own time"]].map(([text, name]) => el("th", { className: name }, text)))), body)),
    Math.abs(work - 1) > .005 ? el("p", { className: "note" }, "Without steps, the calls tell how much each trace did: the second did " + work.toFixed(2) + " times the work of the first, and its own times are scaled to as much.") : "");
}

/** The second trace's work as a multiple of the first's, which its calls are scaled by. */
function workOf(rows) {
  const row = rows.find((one) => one.calls_after > 0 && one.count_after > 0);
  return row ? row.count_after / row.calls_after : 1;
}

function showRow(row) {
  shownTrace = row.count_after > 0 ? 1 : 0;
  const chooser = $("#which select");
  if (chooser) chooser.selectedIndex = shownTrace;
  openPage("timeline", { q: row.key.replace(/^ProfilerStep\*$/, "ProfilerStep#") });
}
