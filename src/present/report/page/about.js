// about.js - what the trace is: where it is from, how well its clocks are known, what was lost, its metadata.

const TRACKS_SHOWN = 500;

function aboutPage(trace, root) {
  const { head } = trace, base = Number(head.base_ns) + Number(head.first_ns);
  const when = head.base_ns !== "0" && base > 0 ? new Date(base / 1e6) : null;
  root.append(...notices(head), list([
    ["File", head.name], ["Format", head.format], when && !isNaN(when) && ["Recorded", when.toISOString().replace("T", " ").slice(0, 19) + " UTC"], ["Duration", time(head.duration)], head.command && ["Command", head.command], head.pid !== "0" && ["Process", head.pid],
    ["Spans", grouped(head.spans) + (head.device_spans ? ", " + grouped(head.device_spans) + " of them on devices" : "")], ["Memory events", grouped(head.memory_events)], ["Marks and counters", grouped(head.instants)], ["State", head.outcome],
    ["Report by", "mtprof " + head.mtprof]].filter(Boolean)));
  root.append(el("h2", {}, "What was lost"));
  const { ledger } = head;
  const losses = [["Records emitted", ledger?.emitted], ["Records kept", ledger?.kept], ["Records dropped", ledger?.dropped], ...Object.entries(ledger?.by ?? {}).map(([cause, count]) => ["\u2003" + cause, count]), ["Names, shapes or stacks that did not fit", ledger?.lost_definitions],
    ["Spans without an end", head.unfinished], ["Ends without a begin", head.unmatched_ends], ["Events skipped", head.skipped_events], ["Durations that are no numbers", head.bad_durations], ["Clock faults", head.clock_faults], ["Damaged chunks", head.damaged_chunks], ["Missing chunks", head.missing_chunks]];
  const told = losses.filter(([name, count]) => count > 0 || (count === 0 && name.startsWith("Records")));
  root.append(told.length ? list(told.map(([name, count]) => [name, grouped(count)])) : el("p", { className: "note" }, "Nothing that is known of. This file has no ledger, which mtprof's own recordings have."));
  if (head.clocks.length) root.append(el("h2", {}, "Clocks of devices"), list(head.clocks.map((clock) => ["Device " + clock.device, "within " + time(clock.error_ns) + " of the host's, by " + plural(clock.points, "sample")])));
  root.append(el("h2", {}, "Tracks"), el("div", { className: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", { className: "name" }, "Process"), el("th", { className: "name" }, "Thread or stream"), el("th", {}, "Spans"), el("th", {}, "Levels"))),
    el("tbody", {}, head.rows.slice(0, TRACKS_SHOWN).map((row) => el("tr", {}, el("td", { className: "name" }, processName(row)), el("td", { className: "name" }, rowName(row)), el("td", {}, grouped(row.count)), el("td", {}, String(row.depth))))))));
  if (head.rows.length > TRACKS_SHOWN) root.append(el("p", { className: "note" }, "And " + grouped(head.rows.length - TRACKS_SHOWN) + " more, which the timeline has."));
  if (head.metadata.length) root.append(el("h2", {}, "Metadata"), el("dl", {}, head.metadata.map(([name, value]) => [el("dt", {}, name), el("dd", {}, el("code", {}, typeof value === "string" ? value : JSON.stringify(value)))])));
}
