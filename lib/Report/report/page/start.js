// Prepares the data of the page of `dtc report`, and draws its head.
function missing(what) {
  const p = state.program;
  return el("p", {class: "note"}, `The page has no ${what}: ` + (p.error ? p.error : p.reached === "scheduled" ? "the program was read as text of one device, which is partitioned already." : "the program does not compile that far (see the errors at the top)."));
}
// The rows of steps or buffers, whose names are indices of words.
function worded(p, table, words) {
  const list = rowsOf(table);
  for (const row of list) row.what = words[row.what], row.value = words[row.value].replace("#", row.number), row.part = row.part === undefined ? "" : words[row.part], row.own_line = row.line, row.line = p.shownLine.get(row.line) ?? row.line;
  return list;
}
function prepare(data) {
  const p = data;
  p.axes = [...new Set(p.meshes ? p.meshes.flatMap((m) => m.axes.map((a) => a.name)) : [])];
  p.mesh = (p.meshes || []).reduce((a, b) => a && a.devices >= b.devices ? a : b, null);
  p.strides = new Map();
  if (p.mesh) {
    let stride = 1;
    for (const a of [...p.mesh.axes].reverse()) p.strides.set(a.name, stride), stride *= a.size;
  }
  p.values = p.values || [];
  for (const v of p.values) if (v) v.sizes = v.nominal_dims || v.dims; // those of a symbol are nominal
  p.kernels = p.kernels || [];
  p.collectives = p.communication ? p.communication.collectives : [];
  p.shownLine = new Map(p.source.left_out.flatMap(([first, count, shown]) => Array.from({length: count}, (_, i) => [first + i, shown + i])));
  p.lineAt = new Map(p.source.lines.map((l) => [l.line, l]));
  p.kernelsOfLine = new Map();
  p.kernels.forEach((k, i) => k.lines.forEach((l) => p.kernelsOfLine.set(l, [...(p.kernelsOfLine.get(l) || []), i])));
  p.numberOf = (line) => line + 1 - p.source.files.filter((f) => f.first <= line).pop().first;
  p.placeOf = (line) => p.source.files.filter((f) => f.first <= line).pop().name.replace(/.*\//, "") + ":" + p.numberOf(line);
  p.schedules = p.schedule || [], p.memories = p.memory || [];
  for (const s of p.schedules) {
    lazily(s, "rows", () => {
      const list = worded(p, s.steps, s.words);
      for (const row of list) row.kind = s.words[row.kind];
      return list;
    });
    if (p.schedules[0].pipeline) s.pipeline = p.schedules[0].pipeline;
    s.places = (s.devices || []).map((d) => p.mesh && p.mesh.order ? p.mesh.order.indexOf(d) : d);
  }
  for (const m of p.memories) lazily(m, "rows", () => worded(p, m.buffers, m.words));
  // By key of a line, a collective or a kernel: the functions with steps or buffers of it.
  lazily(p, "functionsWith", () => {
    const found = new Map();
    const add = (key, f) => { const list = found.get(key); if (!list) found.set(key, [f]); else if (list[list.length - 1] !== f) list.push(f); };
    p.schedules.forEach((s, f) => {
      for (const r of s.rows) {
        if (r.line >= 0) add("l" + r.line, f);
        if (r.collective >= 0) add("c" + r.collective, f);
        if (r.kernel >= 0) add("k" + r.kernel, f);
      }
      for (const b of p.memories[f] ? p.memories[f].rows : []) if (b.line >= 0) add("l" + b.line, f);
    });
    return found;
  });
  return p;
}
function useFunction(i) {
  const p = state.program;
  p.functionIndex = i;
  p.schedule = p.schedules[i], p.memory = p.memories[i];
  lazily(p, "steps", () => p.schedules[i] ? p.schedules[i].rows : []);
  lazily(p, "buffers", () => p.memories[i] ? p.memories[i].rows : []);
}
function useProgram(i) {
  state.program = doc.programs[i].prepared ??= prepare(doc.programs[i]);
  state.selected = "";
  useFunction(0);
  graphPane.open = new Set(), graphPane.started = false, tensorsPane.value = tensorsPane.device = kernelsPane.kernel = -1;
  header(i);
  redraw();
  describe();
}
// "B = 1024 (nominal)"
function nominalText(p) {
  const symbols = p.communication ? p.communication.assumed_sizes : [];
  return symbols.length ? symbols.map((s) => s + " = 1024").join(", ") + " (nominal)" : "";
}
function header(current) {
  const p = state.program, head = byId("head");
  const fact = (name, value, title) => value ? el("span", {class: "fact", title}, name + " ", el("b", {}, value)) : "";
  document.title = p.name.replace(/.*\//, "") + " · dtc report";
  const assumed = nominalText(p);
  const step = p.step, most = (text) => step.complete ? text : "≥ " + text;
  head.replaceChildren(doc.programs.length > 1 ? el("select", {"aria-label": "program", on: {change: (e) => useProgram(Number(e.target.value))}}, doc.programs.map((q, i) => el("option", {value: i, selected: i === current}, q.name)))
    : el("h1", {title: p.name}, p.name.replace(/.*\//, "")),
    fact("devices", p.mesh ? p.mesh.devices.toLocaleString("en") + " (" + p.mesh.axes.map((a) => `${a.name}=${a.size}`).join(", ") + ")" : p.reached === "nothing" ? "" : "1"), fact("costs are for", assumed, "a nominal size, where none is bound: --dim NAME=N gives another"), fact("run", step ? most(timeText(step.seconds * 1e6)) + (p.target ? " on " + p.target : "") : "", "an estimate, on the nominal machine" + (step && !step.complete ? "; loops of unknown length count once" : "")), fact("measured run", p.schedule && p.schedule.measured ? timeText(p.schedule.measured.us) : "", "of the trace"),
    fact("received", step && step.bytes_received ? most(bytesText(step.bytes_received)) : ""), fact("memory", step ? bytesText(step.memory_bytes) : ""),
    el("span", {class: "tools"}, el("input", {id: "search", type: "search", placeholder: "search  /", "aria-label": "search", on: {input: search, keydown: (e) => e.key === "Enter" && search(e, true)}}),
      themeButton()));
  for (const old of document.querySelectorAll(".banner")) old.remove();
  const loose = p.diagnostics.filter((d) => d.severity === "error" || !(d.source_line >= 0));
  const unbound = !p.error && loose.length > 0 && loose.every((d) => d.kind === "memory-unbound"); // no mistake of the program
  if (loose.length || p.error) head.after(el("div", {class: unbound ? "banner plain" : "banner", role: unbound ? "note" : "alert"}, el("b", {}, p.reached === "scheduled" ? "" : unbound ? "This program has no schedule, no memory plan and no kernels until its sizes are bound. " : "This program does not compile. It is shown as far as it comes. "),
    loose.slice(0, 4).map((d) => el("div", {}, d.source_line >= 0 && p.lineAt.has(d.source_line) ? [lineLink(d.source_line), ": "] : "", `${d.message} [${d.kind}]`)), loose.length > 4 ? `and ${loose.length - 4} more` : "", p.error ? el("div", {}, p.error) : ""));
}
// What dtc explain calls them: "%loss_blocks_2_attn_out" of the row "%loss_blocks_{0..7}_attn_out", "in @loss:%losses".
function namesOf(c) {
  const all = [c.value || "", c.name || "", c.user_name || ""].filter(Boolean);
  return all.flatMap((text) => {
    const range = /\{(\d+)\.\.(\d+)\}/.exec(text);
    if (!range) return [text];
    const numbers = Array.from({length: Number(range[2]) - Number(range[1]) + 1}, (_, i) => Number(range[1]) + i);
    return [text, ...numbers.map((n) => text.replace(range[0], n))];
  });
}
const valueNames = (v) => v ? [v.name, v.path, v.user_name].filter(Boolean) : [];
// Finds lines of the source by their text, their collectives and the names that dtc explain has for their values, then other boxes of the graph, or else steps; Enter goes to the next.
let found = [], foundAt = 0;
// Steps of all functions, of the shown one first. Each is in its own schedule.
function stepsWith(words) {
  const p = state.program, shown = p.functionIndex;
  for (const f of [shown, ...p.schedules.keys()].filter((f, i) => p.schedules[f] && (i === 0 || f !== shown)))
    p.schedules[f].rows.forEach((s, i) => {
      if (stepName(s).toLowerCase().includes(words)) found.push(() => { if (p.functionIndex !== f) select(""), showFunction(f); show("schedule"); select("s" + i); });
    });
}
function search(e, next) {
  const words = byId("search").value.trim().toLowerCase(), p = state.program;
  if (!next) {
    const named = p.collectives.filter((c) => namesOf(c).some((t) => t.toLowerCase().includes(words.replace(/^in /, "")))), needing = new Set(named.flatMap((c) => c.lines));
    const has = (l) => needing.has(l.line) || [l.text.replace(/\/\/.*/, ""), ...(l.collectives || []).map((c) => collectiveText(p.collectives[c])), ...(l.values || []).flatMap((v) => valueNames(p.values[v]))].some((t) => t.toLowerCase().includes(words) || t.toLowerCase().includes(words.replace(/^in /, "")));
    const lines = words ? p.source.lines.filter(has) : [], at = new Set(lines.map((l) => l.line));
    const boxes = searchGraph(words).filter(({node}) => node.backward || ![node.line, ...(node.lines || [])].some((l) => at.has(l)));
    found = [...lines.map((l) => () => select("l" + l.line)), ...boxes.map((b) => () => goToNode(b))], foundAt = -1;
    if (words && !found.length) stepsWith(words);
  }
  for (const old of document.querySelectorAll(".found")) old.classList.remove("found");
  byId("search").setAttribute("aria-invalid", words !== "" && !found.length);
  if (!found.length) {
    if (words) byId("selection").replaceChildren(el("span", {class: "what"}, `No line, box or step has “${words}”.`));
    return;
  }
  foundAt = (foundAt + 1) % found.length;
  found[foundAt]();
}
frame();
state.pane = (location.hash.match(/^#(\w+)/) || [])[1] || "graph";
useProgram(0);
window.dtcReport = {doc, state, select, show, panes};
