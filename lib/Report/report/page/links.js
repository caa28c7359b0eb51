// What is selected in the page of `dtc report`, and what is lit with it.
// What is lit with a key.
function related(key) {
  const p = state.program, kind = key[0], id = Number(key.slice(1)), set = new Set([key]);
  const addLine = (l) => { if (l >= 0) set.add("l" + l); };
  if (kind === "d") for (const a of stageAxes()) set.add("q" + indexAlong(a, id));
  if ("dp".includes(kind) && p.schedules.length > 1) for (const f of functionsOf(key)) set.add("f" + f);
  if (kind === "l") set.add("m" + id);
  if (kind === "k" && p.kernels[id]) set.add("u" + id), p.kernels[id].lines.forEach(addLine);
  if (kind === "c" && p.collectives[id]) for (const l of p.collectives[id].lines) set.add("m" + l);
  if (kind === "v" && p.values[id]) addLine(p.values[id].line), set.add("m" + p.values[id].line);
  if (kind === "l") for (const v of (p.lineAt.get(id) || {}).values || []) set.add("v" + v);
  if (kind === "s" || kind === "b") {
    const one = (kind === "s" ? p.steps : p.buffers)[id];
    if (one) addLine(one.line);
    if (one && one.collective >= 0) set.add("c" + one.collective);
    if (one && one.kernel >= 0) set.add("k" + one.kernel);
    if (kind === "s" && one && one.kernel >= 0) p.buffers.forEach((b, i) => { if (b.kernels.includes(one.kernel) && b.first_step <= id && id <= b.last_step) set.add("b" + i); });
  }
  return set;
}
// The functions of the schedule that have what is selected: the stages of a pipeline run different ones. Those of a value say
// which devices have it; of other things, those with steps or buffers of them.
function functionsOf(key) {
  const p = state.program, kind = key[0], id = Number(key.slice(1)), [axis] = stageAxes();
  const all = p.schedules.map((_, i) => i), where = (test) => all.filter((i) => p.schedules[i].places.some(test));
  if (kind === "d") return where((d) => d === id);
  if (kind === "p") return axis === undefined ? [] : where((d) => indexAlong(axis, d) === id);
  const values = kind === "v" ? [id] : kind === "l" ? (p.lineAt.get(id) || {}).values || [] : [];
  const own = values.flatMap((v) => p.values[v] && p.values[v].programs ? p.values[v].programs : []);
  if (own.length) return [...new Set(own)].sort((a, b) => a - b);
  return p.functionsWith.get(kind === "v" && p.values[id] ? "l" + p.values[id].line : key) || [];
}
// Shows the steps and the memory of a function that has what is selected, unless the one that is shown has it.
function follow(key) {
  const p = state.program;
  if (!key || !p.schedules || p.schedules.length < 2 || key[0] === "s" || key[0] === "b") return;
  const having = functionsOf(key);
  if (having.length && !having.includes(p.functionIndex)) showFunction(having[0]);
}
function showFunction(i) {
  useFunction(i);
  redraw(["schedule", "memory"]);
}
// `own`: a line of a layer that is left out, of which the equal line `l` is shown.
// `uses`: how often a kernel runs for each line.
function lineLinks(lines, most, uses) {
  const one = (l, i) => [lineLink(l), uses && uses[i] > 1 ? el("span", {class: "dim", title: "executions for this line, in one run"}, " ×" + uses[i].toLocaleString("en")) : "", " "];
  if (lines.length <= most) return lines.flatMap(one);
  const more = el("span", {class: "link", tabindex: 0, role: "button", "data-toggle": ""}, `and ${lines.length - most} more`);
  more.addEventListener("click", (e) => { e.stopPropagation(); more.replaceWith(...lines.slice(most).flatMap((l, i) => one(l, i + most)).filter(Boolean)); });
  return [...lines.slice(0, most).flatMap(one), more];
}
const lineLink = (l, own = l) => {
  const line = l >= 0 && state.program.lineAt.get(l);
  return line ? linkTo("l" + l, state.program.placeOf(own)) : "";
};

// The selection in words, below the panes.
function describe() {
  const p = state.program, foot = byId("selection"), key = state.selected;
  foot.replaceChildren();
  if (!key) {
    foot.append(el("span", {class: "more", style: "margin:0"},
      "Select a value, a line, a collective, a step or a device: it lights up in every pane.", el("span", {class: "broad"}, " Keys: 1–7 panes, / search, Esc clear.")));
    return;
  }
  const id = Number(key.slice(1)), say = (what, ...more) =>
    foot.append(el("span", {class: "what"}, what), ...more.filter(Boolean).map((m) => el("span", {class: "more"}, m)));
  if (key[0] === "v" && p.values[id]) {
    const v = p.values[id];
    say([v.name + ": " + v.type + " ", shardingText(v.sharding)], v.user_name, v.path && "in the program: " + v.path,
      v.bytes !== undefined && bytesText(v.bytes) + ", " + bytesText(v.device_bytes ?? v.bytes) + " on each device" + (placesOf(v) ? " with " + placesText(placesOf(v)) : ""),
      lineLink(v.line), el("span", {class: "link", on: {click: () => show("tensors")}}, "shards"));
  } else if (key[0] === "l" && p.lineAt.get(id)) {
    const l = p.lineAt.get(id);
    say(p.placeOf(id), l.user, l.us && "computes " + timeText(l.us), l.comm_us && "communicates " + timeText(l.comm_us) + ", " + bytesText(l.comm_bytes),
      el("span", {}, (l.values || []).map((v) => [linkTo("v" + v, p.values[v].name), " "])), el("span", {}, chipsOf(l)));
  } else if (key[0] === "c" && p.collectives[id]) {
    const c = p.collectives[id];
    say(collectiveText(c), collectiveValue(c), purposeText(c), plural(c.messages, "message") + ", " + timeText(c.total_seconds * 1e6) + ", " + bytesText(c.total_bytes) + " received",
      el("span", {}, lineLinks(c.lines, 4)), el("span", {class: "link", on: {click: () => show("communication")}}, "reason"));
  } else if (key[0] === "k" && p.kernels[id]) {
    const k = p.kernels[id];
    say(k.name, k.computes, plural(k.uses, "use"), timeText(k.us) + " each", bytesText(k.bytes), countText(k.flops) + " flops", el("span", {class: "link", on: {click: () => show("kernels")}}, "source"));
  } else if (key[0] === "s" && p.steps[id]) {
    const s = p.steps[id], of = shownSchedule().rows.filter((r) => r.index === id), measured = schedulePane.measured >= 0 && of.length ? plural(of.length, "measured execution") + ", " + timeText(of.reduce((sum, r) => sum + r.us, 0)) + " together" : "";
    say(stepName(s), s.kind !== "repeat" && kindText(s.what), s.kind === "repeat" ? plural(s.times, "iteration") : "", spanText(s.begin_us, s.us) + " (" + timeText(s.us) + ")", measured,
      s.kind === "communicate" && (s.exposed_us > 0 ? timeText(s.exposed_us) + " exposed: the device waits" : "overlapped"), lineLink(s.line, s.own_line), s.collective >= 0 && chip(s.collective));
  } else if (key[0] === "b" && p.buffers[id]) {
    const b = p.buffers[id];
    say(b.value, b.what, bytesText(b.bytes) + " at " + bytesText(b.offset), "live in steps " + b.first_step + " to " + b.last_step, b.at_peak ? "alive at the peak" : "", lineLink(b.line, b.own_line));
  } else if (key[0] === "p") {
    say("devices of pp=" + id, "the stages that they run are lit in the diagram of the pipeline", el("span", {class: "link", on: {click: () => show("tensors")}}, "the devices"));
  } else if (key[0] === "d") {
    say("device " + deviceName(id), p.schedules.length === 1 ? "has the steps and the memory of every device" : "",
      el("span", {class: "link", on: {click: () => show("tensors")}}, "what it holds"));
  } else if (key[0] === "a") {
    const names = key.slice(1).split("+").map((i) => p.axes[i]);
    const rows = p.collectives.filter((c) => names.length > 1 ? axisKeys(c.axes)[0] === key : c.axes.includes(names[0]));
    say((names.length > 1 ? "axes " : "axis ") + names.join(", "), plural(rows.length, "kind") + " of collectives, " + timeText(rows.reduce((t, c) => t + c.total_seconds * 1e6, 0)));
  }
}
// The axis of a pipeline, if the program has one.
const stageAxes = () => state.program.schedule && state.program.schedule.pipeline ? state.program.mesh.axes.filter((a) => a.name === "pp").map((a) => a.name) : [];
// The index of a device as its coordinates: "dp=1 tp=0".
function deviceName(d) {
  const names = [];
  for (const a of [...state.program.mesh.axes].reverse()) names.unshift(a.name + "=" + d % a.size), d = Math.floor(d / a.size);
  return names.join(" ");
}
