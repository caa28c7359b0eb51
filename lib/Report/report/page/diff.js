// The panes of the page of `dtc diff`. docs/diff.md documents the data.
state.program = {axes: [], mesh: null}; // what core.js asks for
for (const mesh of Object.values(doc.meshes)) // {"a": "dp=2, tp=4", "b": …}
  for (const [, axis] of `${mesh.a || ""}, ${mesh.b || ""}`.matchAll(/(\w+)=\d+/g)) if (!state.program.axes.includes(axis)) state.program.axes.push(axis);

const rows = doc.source ? doc.source.rows : [];
doc.causes.forEach((c, i) => { if (c.kind === "setting") for (const r of c.rows || []) rows[r].setting = i; });
// The rows of sections by row of the source, and the causes.
const linked = rows.map(() => []);
for (const [letter, list] of [["x", doc.causes], ["g", doc.shardings], ["m", doc.collectives], ["t", doc.computation]])
  list.forEach((one, i) => (one.rows || []).forEach((r) => linked[r].push(letter + i)));
rows.forEach((row, r) => (row.follows || []).forEach((c) => linked[r].push("x" + c)));
rows.forEach((row, r) => {
  row.linked = linked[r].length > 0;
  // What a line's collectives and shardings follow from, the line follows from, too.
  for (const k of linked[r]) {
    const one = {g: doc.shardings, m: doc.collectives, t: doc.computation}[k[0]]?.[k.slice(1)];
    if (one && one.cause !== null && ![...(row.causes || []), ...(row.follows || [])].includes(one.cause)) (row.follows ||= []).push(one.cause);
  }
});

function related(key) {
  const set = new Set([key]);
  if (key[0] === "r") for (const k of linked[Number(key.slice(1))] || []) set.add(k);
  return set;
}
const placeIn = (location) => location.replace(/[^\s(]*\/([^\s/]+:\d+)/g, "$1"); // without folders
const causeKey = (one) => one.cause === null || one.cause === undefined ? [] : ["x" + one.cause];
const causeMark = (i) => el("span", {class: "cause", "data-k": "x" + i, title: "cause " + (i + 1)}, i + 1);
const axesIn = (text) => String(text).split(/(\w+)/).map((word) => state.program.axes.includes(word) ? el("span", {class: "ax", style: `color:${axisColor(word)}`}, word) : word);
const bare = (sharding) => sharding.replace(/@\w*(?=\{)/g, "");
const arrowText = (before, after) => [axesIn(before), el("span", {class: "note"}, " → "), axesIn(after)];

// A signed change, and the percentage of it.
function signed(v, text) { return (v > 0 ? "+" : v < 0 ? "−" : "") + text(Math.abs(v)); }
const seconds = (s) => timeText(s * 1e6);
function percent(a, b) { return a > 0 ? signed((b - a) / a * 100, (v) => (v >= 10 ? v.toFixed(0) : v.toFixed(1)) + " %") : ""; }
const same = (a, b) => Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b)); // sums of the same terms in another order
const worse = (v) => v > 0 ? "grew" : v < 0 ? "shrank" : "";
const change = (a, b, text) => same(a, b) ? el("td", {class: "r"}, "=") : el("td", {class: "r " + worse(b - a)}, signed(b - a, text));

const follow = () => {}; // all panes show both programs
function describe() {
  const foot = byId("selection"), key = state.selected, id = Number(key.slice(1));
  const say = (what, ...more) => foot.append(el("span", {class: "what"}, what), ...more.filter(Boolean).map((m) => el("span", {class: "more"}, m)));
  foot.replaceChildren();
  if (!key) {
    foot.append(el("span", {class: "more", style: "margin:0"}, `Select a cause, a line or a change: what belongs to it lights up. Keys: 1–${panes.length} panes, n and p next and previous change, / search, Esc clear. ×N: N equal ones.`));
  } else if (key[0] === "x") {
    const c = doc.causes[id];
    say(`cause ${id + 1}: ${causeTitle(c)}`, consequences(id), placeIn(c.location));
  } else if (key[0] === "r") {
    const row = rows[id];
    say(placeOf(row), row.causes ? "part of cause " + row.causes.map((c) => c + 1).join(", ") : "", row.follows ? "follows from cause " + row.follows.map((c) => c + 1).join(", ") : "",
      row.seconds_a !== row.seconds_b ? `computes ${seconds(row.seconds_a || 0)} → ${seconds(row.seconds_b || 0)}` : "");
  } else if (key[0] === "m") {
    const c = doc.collectives[id];
    say(collectiveChange(c), c.what, c.op && `'${c.op}'`, placeIn(c.location), c.layer, `${bytesText(c.a ? c.a.bytes : 0)} → ${bytesText(c.b ? c.b.bytes : 0)} received`);
  } else if (key[0] === "g") {
    const s = doc.shardings[id];
    say(s.what, [s.op + ": ", arrowText(bare(s.before), bare(s.after))], placeIn(s.location));
  } else if (key[0] === "t") {
    const c = doc.computation[id];
    say(c.what, c.op, `${seconds(c.a_seconds)} → ${seconds(c.b_seconds)}`, placeIn(c.location));
  }
}
const fileOf = (files, line) => files.filter((f) => f.first <= line).pop();
function numberOf(files, line) { return line < 0 ? "" : files.length ? line + 1 - fileOf(files, line).first : line + 1; }
function placeOf(row) {
  const place = (side, line) => line < 0 ? "not in " + side : `${side}: ` + (doc.source.text ? `line ${numberOf(doc.source["files_" + side.toLowerCase()], line)}` : `statement ${line + 1}`);
  return place("A", row.a) + ", " + place("B", row.b);
}
// "×8": the row stands for 8 equal causes, statements, collectives or buffers, such as those of 8 layers.
const timesText = (n) => n > 1 ? ` ×${n.toLocaleString("en")}` : "";
function causeTitle(c) {
  const count = timesText(c.count);
  if (c.kind === "added" || c.kind === "removed") return `${c.kind} ${c.op === "function" ? "function " : ""}${c.what}${count}`;
  return (c.kind === "setting" ? "" : c.op + " ") + c.what + count;
}
// What follows from a cause, in one line.
function consequences(i) {
  const of = (list) => list.filter((one) => one.cause === i);
  const sum = (list, f) => list.reduce((t, one) => t + f(one), 0);
  const messages = of(doc.collectives), work = of(doc.computation), shardings = of(doc.shardings);
  const bytes = sum(messages, (c) => (c.b ? c.b.bytes : 0) - (c.a ? c.a.bytes : 0));
  const time = sum(messages, (c) => (c.b ? c.b.exposed_seconds : 0) - (c.a ? c.a.exposed_seconds : 0)) + sum(work, (c) => c.b_seconds - c.a_seconds);
  const parts = [];
  if (shardings.length) parts.push(plural(shardings.reduce((t, s) => t + s.count, 0), "sharding"));
  if (messages.length) parts.push(plural(messages.reduce((t, c) => t + c.count, 0), "collective"));
  if (bytes) parts.push(signed(bytes, bytesText) + " received");
  if (time) parts.push(signed(time, seconds));
  return parts.join(", ");
}
function collectiveChange(c) {
  const name = (side) => `${side.kind} over ${side.axes}`;
  if (!c.a) return "added " + name(c.b);
  if (!c.b) return "removed " + name(c.a);
  return name(c.a) === name(c.b) ? "changed " + name(c.b) : `${name(c.a)} → ${name(c.b)}`;
}

// --- both sources ---

const sourcePane = {id: "source", title: "Source"};
panes.push(sourcePane);
const CONTEXT = 3; // equal lines around a change
const isChange = (row) => row.wrong || row.a < 0 || row.b < 0 || row.causes || row.follows || (row.text === undefined && squeeze(row.text_a) !== squeeze(row.text_b)) || row.sharding_changed || row.setting !== undefined || row.linked;
const squeeze = (text) => (text || "").replace(/ +/g, " ").trim();

for (const side of ["a", "b"]) for (const d of doc[side].diagnostics || []) if (rowOfProblem(side, d)) rows[Number(rowOfProblem(side, d).slice(1))].wrong = true;
sourcePane.draw = (pane) => {
  if (!doc.source) {
    pane.append(el("p", {class: "note"}, "One of the programs is a report of dtc explain, which has costs, but no statements: there is no source to show."));
    return;
  }
  const table = el("div", {class: "source pair"});
  table.append(el("div", {class: "drow head"}, el("div", {class: "side-a"}, el("b", {}, "A "), doc.a.name), el("div", {class: "side-b"}, el("b", {}, "B "), doc.b.name)));
  if (!doc.source.text) table.append(el("p", {class: "note"}, "A program that was saved as data has no text: the statements are shown instead."));
  const near = rows.map(() => false);
  rows.forEach((row, r) => { if (isChange(row)) for (let k = Math.max(0, r - CONTEXT); k <= Math.min(rows.length - 1, r + CONTEXT); ++k) near[k] = true; });
  sourcePane.folds = [];
  for (let r = 0; r < rows.length;) {
    let end = r;
    while (end < rows.length && near[end] === near[r]) ++end;
    if (near[r] || end - r < 3) for (let k = r; k < end; ++k) table.append(sourceRow(k));
    else table.append(fold(r, end));
    r = end;
  }
  if (!rows.some(isChange)) table.prepend(el("p", {class: "note"}, "The texts are equal, and so are the shardings of all lines."));
  pane.append(table);
};
function fold(begin, end) {
  const body = el("div", {hidden: true}), head = el("div", {class: "fold", role: "button", tabindex: 0});
  const toggle = () => {
    body.hidden = !body.hidden;
    if (!body.childElementCount) for (let k = begin; k < end; ++k) body.append(sourceRow(k));
    head.textContent = (body.hidden ? "▸ " : "▾ ") + plural(end - begin, "equal line");
    paint(body);
  };
  head.textContent = "▸ " + plural(end - begin, "equal line");
  head.addEventListener("click", toggle);
  head.addEventListener("keydown", (e) => { if (e.key === "Enter" || e.key === " ") e.preventDefault(), toggle(); });
  sourcePane.folds.push({begin, end, open: () => { if (body.hidden) toggle(); }});
  return el("div", {}, head, body);
}
sourcePane.reveal = (key) => {
  const wanted = related(key);
  for (const f of sourcePane.folds || [])
    for (let r = f.begin; r < f.end; ++r) if (wanted.has("r" + r) || linked[r].some((k) => wanted.has(k))) { f.open(); break; }
};
// Words that differ from the other text are marked.
function marked(text, other) {
  if (other === undefined || text === other) return text || " ";
  const a = text.split(/(\s+|[(),{}:@%])/), b = other.split(/(\s+|[(),{}:@%])/);
  let begin = 0, end = 0;
  while (begin < a.length && begin < b.length && a[begin] === b[begin]) ++begin;
  while (end < a.length - begin && end < b.length - begin && a[a.length - 1 - end] === b[b.length - 1 - end]) ++end;
  const part = a.slice(begin, a.length - end).join("");
  return [a.slice(0, begin).join(""), part ? el("mark", {}, part) : "", a.slice(a.length - end).join("")];
}
function trimmed(text) { const body = (text || "").trimStart(); return " ".repeat(Math.min((text || "").length - body.length, 4)) + body.replace(/ {2,}/g, " "); }
// The changed collectives of a line that a side has: "all_gather over tp, 6.00 KiB ×2".
function messagesOf(r, side) {
  const lines = new Map();
  for (const c of linked[r].filter((k) => k[0] === "m").map((k) => doc.collectives[k.slice(1)])) {
    const own = c[side], other = c[side === "a" ? "b" : "a"];
    if (!own) continue;
    const text = (other ? "" : side === "a" ? "removed " : "added ") + `${own.kind} over ${own.axes}` + (own.bytes_each ? ", " + bytesText(own.bytes_each) : "") + (c.row_counts.reduce((t, n) => t + n, 0) > c.count ? ", shared with other lines" : "");
    lines.set(text, (lines.get(text) || 0) + c.row_counts[c.rows.indexOf(r)]);
  }
  return [...lines].map(([text, n]) => text + timesText(n));
}
function sourceRow(r) {
  const row = rows[r], changed = isChange(row);
  const cell = (side, line) => {
    const own = row["text_" + side] ?? row.text, other = row["text_" + (side === "a" ? "b" : "a")];
    const sharding = row["sharding_" + side], differs = row.sharding_changed;
    const computes = linked[r].some((k) => k[0] === "t") && (row.seconds_a || 0) !== (row.seconds_b || 0);
    if (line < 0) return el("div", {class: "cell none side-" + side});
    return el("div", {class: `cell side-${side}` + (row.a < 0 ? " only-b" : row.b < 0 ? " only-a" : changed && own !== other && row.text === undefined ? " changed" : "")},
      el("div", {class: "n"}, numberOf(doc.source["files_" + side], line)),
      el("div", {class: "t mono"}, marked(trimmed(own), row.text === undefined && row.a >= 0 && row.b >= 0 ? trimmed(other) : undefined),
        row.setting !== undefined && doc.causes[row.setting][side === "a" ? "before" : "after"] !== "none" && !squeeze(own).includes(squeeze(doc.causes[row.setting][side === "a" ? "before" : "after"])) ? el("div", {class: "prop differs"}, "compiled as ", axesIn(doc.causes[row.setting][side === "a" ? "before" : "after"])) : "",
        messagesOf(r, side).map((text) => el("div", {class: "prop", title: "a collective that changed, with the bytes that a device receives; ×N: this line needs N equal ones"}, text)),
        computes ? el("div", {class: "prop"}, "computes " + seconds(row["seconds_" + side] || 0)) : "",
        problemsOfRow(side, r).map((d) => el("div", {class: "bad"}, `${d.message} [${d.kind}]`)),
        sharding ? el("div", {class: "prop" + (differs ? " differs" : ""), title: "propagated sharding"}, axesIn(bare(sharding))) : ""));
  };
  return el("div", {class: "drow" + (changed ? " touched" : " equal"), "data-k": keys("r" + r, linked[r]), tabindex: changed ? 0 : null},
    el("div", {class: "marks"}, [...(row.causes || []), ...(row.setting === undefined ? [] : [row.setting])].slice(0, 2).map(causeMark), (row.follows || []).slice(0, 2).map((c) => el("span", {class: "cause follows", title: "follows from cause " + (c + 1)}, c + 1))),
    cell("a", row.a), cell("b", row.b));
}

// --- causes and what follows ---

const causesPane = {id: "causes", title: "Causes"};
panes.push(causesPane);
causesPane.draw = (pane) => {
  if (!doc.changed && doc.compares_costs) { pane.append(el("p", {}, "The programs are equal: shardings, collectives, computation and memory.")); return; }
  pane.append(totalsTable());
  pane.append(el("h2", {}, "Causes, the smallest first"));
  if (!doc.causes.length) pane.append(el("p", {class: "note"}, doc.compares_statements ? "The programs have the same statements, annotations and settings: what changed is the compiler." : "A report of dtc explain has no statements, so that causes are unknown."));
  doc.causes.forEach((c, i) => pane.append(el("div", {class: "item", "data-k": "x" + i, tabindex: 0}, causeMark(i), el("div", {},
    el("div", {class: "mono"}, el("b", {}, causeTitle(c))), el("div", {class: "mono"}, c.kind === "added" ? c.after : c.kind === "removed" ? c.before : arrowText(bare(c.before), bare(c.after))),
    el("div", {class: "note"}, [consequences(i), placeIn(c.location)].filter(Boolean).join(" · "))))));
  if (doc.compares_statements && doc.compares_costs) pane.append(el("h2", {}, "What follows"));
  if (doc.compares_statements && doc.compares_costs && !doc.shardings.length && !doc.types && !doc.generated) pane.append(el("p", {class: "note"}, rows.some((row) => row.sharding_changed) ? "Propagated shardings change with the mesh alone: those of the lines that are marked in the sources." : "No propagated sharding changes."));
  doc.shardings.forEach((s, i) => pane.append(el("div", {class: "item", "data-k": keys("g" + i, causeKey(s)), tabindex: 0}, s.cause === null ? el("span", {class: "cause none"}) : el("span", {class: "cause follows"}, s.cause + 1),
    el("div", {}, el("div", {class: "mono"}, s.what, el("span", {class: "note"}, ` ${s.op}` + timesText(s.count))), el("div", {class: "mono"}, arrowText(bare(s.before), bare(s.after)))))));
  const more = [doc.types ? plural(doc.types, "statement") + " whose type follows" : "", doc.generated ? plural(doc.generated, "compiled statement") + " that only A or only B has" : ""].filter(Boolean);
  if (more.length) pane.append(el("p", {class: "note"}, more.join("; ") + "."));
};
// The diagnostics of a program that does not compile.
function problems(side) {
  const list = doc[side].diagnostics || [];
  return list.length ? el("div", {}, el("h2", {}, `Diagnostics of ${side.toUpperCase()}`), list.map((d) => el("p", {class: d.severity === "error" ? "bad" : "note", "data-k": rowOfProblem(side, d)},
    `${d.severity}: ${d.message} [${d.kind}]`, el("span", {class: "note"}, d.file ? `  ${placeIn(`${d.file}:${d.line}`)}` : "")))) : "";
}
function rowOfProblem(side, d) {
  const files = doc.source ? doc.source["files_" + side] : [], file = files.find((f) => f.name === d.file);
  const r = file ? rows.findIndex((row) => row[side] === file.first + d.line - 1) : -1;
  return r < 0 ? "" : "r" + r;
}
const problemsOfRow = (side, r) => (doc[side].diagnostics || []).filter((d) => rowOfProblem(side, d) === "r" + r);
// Of a program whose memory is known, beside one whose memory is not.
function memoryLine(a, b) {
  const one = (side) => el("td", {class: "r"}, side.peak_bytes === null ? "unknown" : bytesText(side.peak_bytes));
  return (a.peak_bytes === null) === (b.peak_bytes === null) ? "" : el("tr", {}, el("td", {}, "memory at the peak"), one(a), one(b), el("td", {}), el("td", {}));
}
function totalsTable() {
  if (!doc.compares_costs) return el("div", {}, el("p", {class: "note"}, "A program does not compile: the texts are compared, costs are unknown, and statements with errors count as missing."), problems("a"), problems("b"), doc.budgets.map((x) => el("p", {class: "bad"}, "✗ " + x.message)));
  const stages = doc.has_stages ? ", of all stages" : "";
  const a = doc.a.total, b = doc.b.total; // the first row is the sum of the three below it
  const line = (name, key, text) => a[key] === null || b[key] === null || a[key] === undefined || (!a[key] && !b[key]) ? "" : el("tr", {}, el("td", {}, name), el("td", {class: "r"}, text(a[key])), el("td", {class: "r"}, text(b[key])), change(a[key], b[key], text), el("td", {class: "r"}, key === "schedule_seconds" || same(a[key], b[key]) ? "" : percent(a[key], b[key]))); // of a remainder, a percentage means nothing
  return el("div", {}, el("h2", {}, "A device, per step"), el("div", {class: "wide"}, el("table", {}, el("tr", {}, el("th", {}, ""), el("th", {class: "r"}, "A"), el("th", {class: "r"}, "B"), el("th", {class: "r"}, "change"), el("th", {})),
    line("time of a step", "step_seconds", seconds), line("computation" + stages, "compute_seconds", seconds), line("communication, not overlapped" + stages, "exposed_seconds", seconds), line("fusion, overlap, waits", "schedule_seconds", seconds),
    line("received", "received_bytes", bytesText), line("messages" + stages, "messages", (v) => v.toLocaleString("en")), memoryLine(a, b) || line("memory at the peak", "peak_bytes", bytesText))),
    doc.no_memory ? el("p", {class: "note"}, "Memory is unknown: " + doc.no_memory) : "", doc.before_schedule ? el("p", {class: "note"}, "A program has no schedule: times and received bytes of both are sums before it.") : "", doc.complete ? "" : el("p", {class: "note"}, "Sizes or iteration counts are unknown before the run: a symbolic size counts as 1024, another unknown size as nothing, an unknown loop as one iteration."),
    doc.budgets.map((x) => el("p", {class: x.holds ? "note" : "bad"}, (x.holds ? "✓ " : "✗ ") + `limit of ${x.of}: ${x.limit}` + (x.holds ? " holds" : ": " + x.message) + (x.assumes ? ` (${x.assumes})` : ""))));
}

const collectivesPane = {id: "collectives", title: "Collectives"};
panes.push(collectivesPane);
collectivesPane.draw = (pane) => {
  if (!doc.collectives.length) { pane.append(el("p", {class: "note"}, doc.compares_costs ? "No collective changes." : "One of the programs does not compile.")); return; }
  pane.append(el("h2", {}, "Collectives, by change of their time"), el("p", {class: "note"}, "Times are of all executions in a step, exposed or overlapped."));
  doc.collectives.forEach((c, i) => {
    const a = c.a || {bytes: 0, seconds: 0, messages: 0}, b = c.b || {bytes: 0, seconds: 0, messages: 0}, color = axisColor((c.b || c.a).axes.split(", ")[0]);
    const name = (side) => el("span", {class: "chip", style: `color:${axisColor(side.axes.split(", ")[0])};border-color:${axisColor(side.axes.split(", ")[0])}`}, `${side.kind} ${side.axes}`);
    pane.append(el("div", {class: "item", "data-k": keys("m" + i, causeKey(c)), tabindex: 0}, c.cause === null ? el("span", {class: "cause none"}) : el("span", {class: "cause follows"}, c.cause + 1), el("div", {style: "flex:1"},
      el("div", {}, !c.a ? [el("b", {}, "added "), name(c.b)] : !c.b ? [el("b", {}, "removed "), name(c.a)] : c.a.kind === c.b.kind && c.a.axes === c.b.axes ? [el("b", {}, "changed "), name(c.b)] : [name(c.a), "→ ", name(c.b)], timesText(c.count)),
      el("div", {class: "mono"}, c.what, el("span", {class: "note"}, (c.op ? ` ${c.op}` : "") + (c.layer ? ` · ${c.layer}` : ""))),
      el("div", {class: "note"}, `${seconds(a.seconds)} → ${seconds(b.seconds)} · ${bytesText(a.bytes)} → ${bytesText(b.bytes)}` + (a.messages !== b.messages ? ` · ${plural(a.messages, "message")} → ${b.messages.toLocaleString("en")}` : ""))),
      el("div", {class: "r " + worse(b.seconds - a.seconds)}, signed(b.seconds - a.seconds, seconds), el("br"), signed(b.bytes - a.bytes, bytesText))));
  });
  for (const [title, list] of [["By mesh axis", doc.axes], ["By kind", doc.kinds], ["By layer", doc.layers], ["Messages of the schedule", doc.schedule_kinds]])
    if (list.length && list.some((r) => r.label)) pane.append(el("h2", {}, title), el("div", {class: "wide"}, el("table", {}, el("tr", {}, el("th", {}), ["received A", "received B", "change", "time A", "time B", "change"].map((t) => el("th", {class: t.endsWith("A") ? "r broad" : "r"}, t))),
      list.map((r) => el("tr", {}, el("td", {}, axesIn(r.label || "elsewhere")), el("td", {class: "r broad"}, bytesText(r.a.bytes)), el("td", {class: "r"}, bytesText(r.b.bytes)), change(r.a.bytes, r.b.bytes, bytesText), el("td", {class: "r broad"}, seconds(r.a.seconds)), el("td", {class: "r"}, seconds(r.b.seconds)), change(r.a.seconds, r.b.seconds, seconds))))));
};

const timePane = {id: "time", title: "Computation"};
panes.push(timePane);
timePane.draw = (pane) => {
  if (!doc.compares_costs) { pane.append(el("p", {class: "note"}, "Times are unknown: a program does not compile.")); return; }
  if (!doc.computation.length) { pane.append(el("p", {class: "note"}, "The time of no statement changes.")); return; }
  pane.append(el("h2", {}, "Computation of one device"), el("div", {class: "wide"}, el("table", {}, el("tr", {}, el("th", {}), el("th", {}, "statement"), ["A", "B", "change"].map((t) => el("th", {class: "r"}, t))),
    doc.computation.slice(0, 300).map((c, i) => el("tr", {"data-k": keys("t" + i, causeKey(c)), tabindex: 0}, el("td", {}, c.cause === null ? "" : el("span", {class: "cause follows"}, c.cause + 1)), el("td", {class: "mono"}, c.what, el("span", {class: "note"}, " " + c.op + timesText(c.count))),
      el("td", {class: "r"}, seconds(c.a_seconds)), el("td", {class: "r"}, seconds(c.b_seconds)), change(c.a_seconds, c.b_seconds, seconds))))), doc.computation.length > 300 ? el("p", {class: "note"}, `and ${doc.computation.length - 300} smaller ones`) : "");
};

const memoryPane = {id: "memory", title: "Memory"};
panes.push(memoryPane);
memoryPane.draw = (pane) => {
  if (!doc.compares_costs) { pane.append(el("p", {class: "note"}, "Memory is unknown: a program does not compile.")); return; }
  if (doc.no_memory) { pane.append(el("p", {class: "note"}, "Memory is unknown: " + doc.no_memory)); return; }
  if (!doc.memory.length) { pane.append(el("p", {class: "note"}, "The buffers at the peak are the same.")); return; }
  pane.append(el("h2", {}, "Buffers that are live at the peak"), el("p", {class: "note"}, "Of the device that needs most. The peaks of A and B may be at different steps."), el("div", {class: "wide"}, el("table", {}, el("tr", {}, el("th", {}, "value"), ["A", "B", "change"].map((t) => el("th", {class: "r"}, t))),
    doc.memory.slice(0, 300).map((m) => el("tr", {}, el("td", {class: "mono"}, m.kind === "gaps" ? "between buffers" : m.what, el("span", {class: "note"}, (m.kind === "gaps" ? "" : " " + m.kind) + timesText(m.count)), el("div", {class: "note"}, m.type_a === m.type_b ? m.type_b : `${m.type_a || "not live"} → ${m.type_b || "not live"}`)),
      el("td", {class: "r"}, bytesText(m.a_bytes)), el("td", {class: "r"}, bytesText(m.b_bytes)), change(m.a_bytes, m.b_bytes, bytesText))))), doc.memory.length > 300 ? el("p", {class: "note"}, `and ${doc.memory.length - 300} smaller ones`) : "");
};
