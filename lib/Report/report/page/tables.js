// Communication and kernels.
const communicationPane = {id: "communication", title: "Communication", open: new Map()};
panes.push(communicationPane);

communicationPane.draw = (pane) => {
  const p = state.program, c = p.communication;
  if (!c) { pane.append(missing("reasons of the communication")); return; }
  communicationPane.open.clear();
  if (!c.collectives.length) { pane.append(el("p", {}, p.schedule && p.schedule.pipeline ? "The stages of the pipeline exchange messages; there is not any other communication." : "This program does not communicate.")); return; }
  pane.append(el("p", {class: "note"}, `The collectives below receive ${bytesText(c.bytes)}, in ${timeText(c.us)} without overlap on the nominal machine; computation takes ${timeText(c.compute_us)} before ops are fused to kernels` + (p.schedule && p.schedule.pipeline ? ". These are sums over all stages of the pipeline; a device has its own alone, and messages to other stages: see By axis." : ".") + (p.step && p.step.bytes_received !== c.bytes ? ` In the schedule, the device that receives most receives ${bytesText(p.step.bytes_received)}: recomputation and other passes change the messages, and the largest part of each message may be that of another device.` : "") + (c.complete ? "" : " Loops of unknown length count once.")));
  // The messages of the schedule need not be those of the collectives below, from which passes make them.
  const staged = p.schedules.length > 1, passes = "Passes after the sharding repeat values in the backward part (recomputation), join and divide messages, and make rings" + (staged ? "; the collectives below are of all stages together, the schedule's are of the device that receives most" : "");
  const countOf = (r, before) => {
    const below = before && (before.find((b) => b.label === r.label) || {count: 0}).count;
    return el("td", {class: "r", title: before && below !== r.count ? `${plural(r.count, "message")} in the schedule, of ${below.toLocaleString("en")} of the collectives below. ${passes}.` : null}, r.count.toLocaleString("en"), before && below !== r.count ? el("span", {class: "note"}, ` (${below.toLocaleString("en")} below)`) : "");
  };
  const sums = (title, rows, name, before) => rows.length < 1 ? "" : el("div", {}, el("h2", {}, title), el("table", {}, el("tr", {}, el("th", {}, name), ["messages", "received", "time"].map((t) => el("th", {class: "r"}, t))),
    rows.slice(0, 12).map((r) => el("tr", {}, el("td", {}, name === "axis" ? el("span", {class: "ax", style: `color:${axisColor(r.label.split(", ")[0])}`, "data-k": keys(axisKeys(r.label.split(", ")))}, axesText(r.label.split(", "))) : el("span", {title: name === "kind" ? kindText(r.label) : ""}, r.label), name === "axis" ? "" : (r.layers > 1 ? ` (${r.layers} layers)` : "")), countOf(r, before), el("td", {class: "r"}, bytesText(r.bytes_received)), el("td", {class: "r"}, timeText(r.seconds * 1e6))))));
  const s = c.summary, runs = executions(p);
  const repeated = s.kinds.filter((k) => runs.has(k.label) && runs.get(k.label) > k.count);
  if (repeated.length) pane.append(el("p", {class: "note"}, "In the schedule, after recomputation and all other passes, " + repeated.map((k) => `${k.label} runs ${runs.get(k.label).toLocaleString("en")} times, for ${k.count.toLocaleString("en")} in the program`).join("; ") + "."));
  pane.append(el("div", {class: "tables"}, sums(p.step ? "By axis, in the schedule" : "By axis", p.step ? p.step.axes : s.axes, "axis", p.step && s.axes), sums(p.step ? "By kind, in the schedule" : "By kind", p.step ? p.step.kinds : s.kinds, "kind", p.step && s.kinds), s.layers.length > 1 ? sums(p.step ? "By layer, before the schedule" : "By layer", s.layers, "layer") : ""));
  // Those of all stages together are not those of a device.
  if ((s.axis_limits || []).length && !(p.schedule && p.schedule.pipeline))
    pane.append(el("div", {class: "wide"}, el("h2", {}, "Before the schedule"), el("p", {class: "note"}, "If ops run in the order of the program, and each message overlaps with the independent ones after it. The schedule reorders steps, computes values again and divides matmuls into rings."), el("table", {}, el("tr", {}, el("th", {}, "axis"), [["time", "without overlap"], ["latency bound", "the part of the time that messages without a payload take"], ["exposed", "the time in which the device waits and computes nothing"]].map(([t, title]) => el("th", {class: "r", title}, t))),
      s.axis_limits.map((a) => el("tr", {}, el("td", {class: "ax", style: `color:${axisColor(a.axis)}`, "data-k": keys(axisKeys([a.axis]))}, axisText(a.axis)), el("td", {class: "r"}, timeText(a.seconds * 1e6)), el("td", {class: "r"}, timeText(a.latency_seconds * 1e6)), el("td", {class: "r"}, timeText(a.exposed_seconds * 1e6)))))));
  const order = c.collectives.map((_, i) => i).sort((a, b) => c.collectives[b].total_seconds - c.collectives[a].total_seconds || a - b);
  const most = Math.max(1e-12, ...c.collectives.map((x) => x.total_seconds));
  pane.append(el("h2", {}, "Collectives, costliest first"), el("p", {class: "note"}, "Collectives that are equal except for their layer are one row. Open a row for its reason, and the change of the annotations that would remove it."));
  for (const i of order) pane.append(collectiveRow(c.collectives[i], i, most));
};
// By kind: the messages of a run in the schedule. Of a pipeline, a device runs those of its stages alone.
function executions(p) {
  const runs = new Map();
  if (p.schedule && !p.schedule.pipeline && p.schedules.length === 1)
    for (const s of p.steps) if (s.kind === "communicate") runs.set(s.what, (runs.get(s.what) || 0) + s.times);
  return runs;
}
communicationPane.reveal = (key) => { if (key[0] === "c" && communicationPane.open.has(Number(key.slice(1)))) communicationPane.open.get(Number(key.slice(1)))(); };

// The functions of a pipeline's stages that run it, to be lit with their devices.
const runBy = (key) => state.program.schedules.length > 1 ? (state.program.functionsWith.get(key) || []).map((f) => "f" + f) : [];
function collectiveRow(c, i, most) {
  const color = axisColor(c.axes[0]), body = el("div", {class: "why", hidden: true});
  const fillBody = () => {
    if (body.childElementCount) return;
    for (const s of c.sources) {
      body.append(el("div", {}, s.from ? [s.value ? el("code", {}, s.value + " ") : "", el("code", {}, s.from.replace(/@\w+/, "")), " → ", el("code", {}, s.to.replace(/@\w+/, "")), el("br")] : "", "because " + placesIn(s.why)));
      if (s.chain.length) body.append(el("ol", {}, s.chain.map((step) => el("li", {}, el("code", {}, step.value), ` dim ${step.dim} along ${step.axes}`, step.via ? ` through '${step.via}'` : step.annotation ? ": annotated" : "", step.location ? el("span", {class: "note"}, "  " + placesIn(step.location)) : ""))));
    }
    if (c.more_sources) body.append(el("div", {class: "note"}, `the same message serves ${c.more_sources} more`));
    if (c.change.length) {
      const p = state.program.communication, before = p.us + p.compute_us;
      body.append(el("div", {}, el("b", {}, "Tried: "), c.change.map((e) => el("div", {}, "write ", el("code", {}, e.after.trim()), e.before ? [" for ", el("code", {}, e.before)] : "", ` on ${e.of} (${placesIn(e.location)})`)),
        c.step_seconds_after != null ? `It is then gone, ${c.step_seconds_after > c.step_seconds_before * (1 + 1e-9) ? "but" : "and"} the step takes ${timeText(c.step_seconds_after * 1e6)} instead of ${timeText(c.step_seconds_before * 1e6)}, with ${plural(c.collectives_after, "collective")}.` :
        `It is then gone: the program takes ${timeText(c.seconds_after * 1e6)} instead of ${timeText(before)} (sums of ops and messages, before scheduling), with ${plural(c.collectives_after, "collective")}.`));
    } else if (c.no_change) body.append(el("div", {class: "note"}, c.no_change));
    body.append(el("div", {}, c.lines.length === 1 ? "line: " : "lines: ", lineLinks(c.lines, 8)));
  };
  const row = el("div", {"data-k": keys("c" + i, c.lines.map((l) => "l" + l), axisKeys(c.axes), runBy("c" + i)), style: "display:flex;flex-wrap:wrap;gap:0 10px;align-items:baseline;border-top:1px solid var(--line);padding:3px 4px"},
    el("span", {class: "chip", style: `color:${color};border-color:${color}`}, collectiveText(c)), el("span", {class: "mono name"}, breakable(collectiveValue(c)), [purposeText(c), c.layer && (/[{]/.test(c.layer) ? "layers " : "layer ") + c.layer].filter(Boolean).map((t) => el("div", {class: "note"}, breakable(t)))),
    el("span", {class: "note", style: "margin:0"}, c.messages > 1 ? `${c.messages.toLocaleString("en")} × ${bytesText(c.bytes_received || 0)}` : bytesText(c.bytes_received || 0)), el("span", {style: "min-width:5.5em;text-align:right"}, timeText(c.total_seconds * 1e6)),
    draw("svg", {width: 60, height: 8}, draw("rect", {width: Math.max(c.total_seconds / most * 60, 1), height: 8, style: `fill:${color}`})), el("span", {class: "link", tabindex: 0, role: "button", "data-toggle": ""}, "why"));
  const toggle = (open) => { fillBody(); body.hidden = !open; };
  row.querySelector("[data-toggle]").addEventListener("click", (e) => { e.stopPropagation(); toggle(body.hidden); });
  communicationPane.open.set(i, () => toggle(true));
  return el("div", {}, row, body);
}
// Without the folders of paths.
const placesIn = (text) => text.replace(/[^\s(]*\/([^\s/]+:\d+)/g, "$1");

const kernelsPane = {id: "kernels", title: "Kernels", kernel: -1};
panes.push(kernelsPane);

kernelsPane.draw = (pane) => {
  const p = state.program, kernels = p.kernels;
  if (!kernels.length) { pane.append(missing("kernels")); return; }
  const order = kernels.map((_, i) => i).sort((a, b) => kernels[b].us * kernels[b].uses - kernels[a].us * kernels[a].uses || a - b);
  const source = el("div"), run = "in one run" + (p.schedules.length > 1 ? ", summed over " + (p.schedules.some((s) => s.pipeline) ? "the stages of the pipeline" : "the devices that differ") : "");
  kernelsPane.source = source;
  pane.append(el("h2", {}, "Roofline of " + plural(kernels.length, "kernel") + " and library calls"), el("p", {class: "note"}, `Each point is a kernel, on the roof of the nominal machine (${roundText(p.machine.flops_per_second)}flop/s, ${roundText(p.machine.memory_bytes_per_second)}B/s): left of the corner its memory traffic limits it, right of it its arithmetic. Larger points take more time ${run}.`),
    el("div", {class: "draw"}, roofline(kernels, Math.max(pane.clientWidth - 42, 280))));
  const total = kernels.reduce((t, k) => t + k.us * k.uses, 0) || 1, most = 150;
  pane.append(el("div", {class: "wide"}, el("table", {class: "named", style: "--columns: 5"}, el("tr", {}, el("th", {}, "kernel"), el("th", {class: "broad"}, "computes"), el("th", {class: "broad"}, "limited by"), [["uses", run], ["time", "of all uses " + run], ["share", "of the time of all kernels"], ["bytes", "read and written by one use"], ["flops", "of one use"]].map(([t, title]) => el("th", {class: "r", title}, t))),
    order.slice(0, most).map((i) => { const k = kernels[i]; return el("tr", {"data-k": keys("k" + i, k.lines.map((l) => "l" + l), runBy("k" + i)), tabindex: 0}, el("td", {class: "mono", title: kindText(k.kind)}, breakable(k.name), k.name.startsWith(k.kind) ? "" : el("div", {class: "note", style: "margin:0"}, k.kind), el("div", {class: "note narrow", style: "margin:0"}, breakable(short(k.computes, 44)))), el("td", {class: "mono broad", title: k.computes}, breakable(short(k.computes, 44))), el("td", {class: "broad", style: "white-space:nowrap"}, limitOf(k)), el("td", {class: "r"}, k.uses.toLocaleString("en")), el("td", {class: "r"}, timeText(k.us * k.uses)), el("td", {class: "r"}, Math.round(k.us * k.uses / total * 100) + " %"), el("td", {class: "r"}, bytesText(k.bytes)), el("td", {class: "r"}, countText(k.flops))); }))),
    order.length > most ? el("p", {class: "note"}, `and ${order.length - most} more`) : "", source);
  if (kernelsPane.kernel < 0 || !kernels[kernelsPane.kernel]) kernelsPane.kernel = order.find((i) => kernels[i].source) ?? order[0];
  drawKernel();
};
kernelsPane.reveal = (key) => {
  if (!kernelsPane.source || !state.program.kernels.length) return;
  const set = related(key), own = key[0] === "k" ? key : [...set].find((k) => k[0] === "k"), line = [...set].find((k) => k[0] === "l");
  const id = own ? Number(own.slice(1)) : ((line && state.program.kernelsOfLine.get(Number(line.slice(1)))) || [-1])[0];
  if (id >= 0 && state.program.kernels[id]) { kernelsPane.kernel = id; drawKernel(); }
};
const limitOf = (k) => k.flops / state.program.machine.flops_per_second > k.bytes / state.program.machine.memory_bytes_per_second ? "arithmetic" : "memory";
function drawKernel() {
  const k = state.program.kernels[kernelsPane.kernel];
  kernelsPane.source.replaceChildren(el("h2", {}, breakable(k.name)), el("p", {class: "note"}, ["computes " + k.computes, k.library ? "library call: " + k.library : "", k.schedule || ""].filter(Boolean).join("; "), k.lines.length ? [k.lines.length === 1 ? "; line: " : "; lines: ", lineLinks(k.lines, 8, k.line_uses)] : ""),
    k.source ? el("pre", {}, k.source) : el("p", {class: "note"}, k.library ? "A library computes it: dtc generates no code for it." : "Its source is not in this page, whose size is limited: dtc compile --emit kernels prints it."));
}
function roofline(kernels, width) {
  const m = state.program.machine, left = 56, bottom = 200, room = width - left - 16, high = bottom - 14;
  const points = kernels.map((k, i) => ({k, i, x: k.flops / Math.max(k.bytes, 1), y: k.flops / Math.max(k.us * 1e-6, 1e-12)})).filter((q) => q.k.flops > 0 && q.k.bytes > 0 && q.k.us > 0);
  const corner = m.flops_per_second / m.memory_bytes_per_second;
  const low = Math.floor(Math.log10(Math.min(0.1, corner, ...points.map((q) => q.x)))), up = Math.ceil(Math.log10(Math.max(corner * 10, ...points.map((q) => q.x))));
  const lowY = Math.floor(Math.log10(Math.min(10 ** low * m.memory_bytes_per_second, ...points.map((q) => q.y)))), upY = Math.ceil(Math.log10(m.flops_per_second)) + 0.1;
  const x = (v) => left + (Math.log10(v) - low) / (up - low) * room, y = (v) => bottom - (Math.log10(v) - lowY) / (upY - lowY) * high;
  const svg = draw("svg", {width, height: bottom + 40});
  const step = Math.ceil((up - low) / Math.max(2, Math.floor(room / 60))), stepY = Math.ceil((upY - lowY) / 6);
  for (let e = low; e <= up; e += step) svg.append(draw("line", {class: "grid", x1: x(10 ** e), x2: x(10 ** e), y1: 10, y2: bottom}), draw("text", {class: "dim", x: Math.min(x(10 ** e), width - 3 - 3.4 * String(e >= 0 ? roundText(10 ** e) : e).length), y: bottom + 19, "text-anchor": "middle"}, e >= 0 ? roundText(10 ** e) : (10 ** e).toFixed(-e)));
  for (let e = lowY; e <= upY; e += stepY) svg.append(draw("line", {class: "grid", x1: left, x2: left + room, y1: y(10 ** e), y2: y(10 ** e)}), draw("text", {class: "dim", x: left - 5, y: y(10 ** e) + 4, "text-anchor": "end"}, roundText(10 ** e)));
  svg.append(draw("text", {class: "dim", x: left + room / 2, y: bottom + 34, "text-anchor": "middle"}, "operations per byte"), draw("text", {class: "dim", x: 14, y: bottom / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${bottom / 2})`}, "operations per second"), draw("path", {d: `M${x(10 ** low)} ${y(10 ** low * m.memory_bytes_per_second)}L${x(corner)} ${y(m.flops_per_second)}L${x(10 ** up)} ${y(m.flops_per_second)}`, style: "fill:none;stroke:var(--text);stroke-width:1.5"}));
  const all = Math.max(...points.map((q) => q.k.us * q.k.uses), 1e-12), largest = [...points].sort((a, b) => b.k.us * b.k.uses - a.k.us * a.k.uses);
  const taken = [{x0: 0, x1: left + 130, y0: 0, y1: 46}]; // the legend; then points and labels
  for (const q of largest) {
    const r = 3 + 8 * Math.sqrt(q.k.us * q.k.uses / all), cx = x(q.x), cy = y(q.y), arithmetic = limitOf(q.k) === "arithmetic";
    svg.append(draw("g", {"data-k": keys("k" + q.i, q.k.lines.map((l) => "l" + l))}, arithmetic ? draw("rect", {class: "shape", x: cx - r, y: cy - r, width: 2 * r, height: 2 * r, style: `fill:${tint(palette[1], 55)}`}) : draw("circle", {class: "shape", cx, cy, r, style: `fill:${tint(palette[0], 45)}`}), draw("title", {}, `${q.k.name}\n${q.k.computes}\n${timeText(q.k.us)}, ${q.k.uses} uses`)));
    taken.push({x0: cx - r, x1: cx + r, y0: cy - r, y1: cy + r});
    q.at = {cx, cy, r};
  }
  const roof = (px) => y(Math.min(10 ** (low + (px - left) / room * (up - low)) * m.memory_bytes_per_second, m.flops_per_second));
  const isFree = (b) => b.x0 > left && b.x1 < width - 2 && b.y1 < bottom && !taken.some((t) => t.x0 < b.x1 && b.x0 < t.x1 && t.y0 < b.y1 && b.y0 < t.y1) &&
    [0, 1, 2, 3, 4].every((i) => { const at = roof(b.x0 + (b.x1 - b.x0) * i / 4); return at < b.y0 - 1 || at > b.y1 + 1; });
  let labels = 0;
  for (const {k, at: {cx, cy, r}} of largest) {
    if (labels >= 12) break;
    const label = short(k.name, 22), wide = label.length * 6.7;
    const spots = [0, 14, 28, 42].flatMap((dy) => [cx + r + 4, cx - r - wide - 4].map((x0) => ({x0, x1: x0 + wide, y0: cy - 6 + dy, y1: cy + 7 + dy})));
    const spot = spots.find(isFree);
    if (!spot) continue;
    taken.push(spot), ++labels;
    svg.append(draw("text", {x: spot.x0, y: spot.y0 + 10, style: "pointer-events:none"}, label));
  }
  svg.append(draw("rect", {x: left + 2, y: 10, width: 132, height: 36, style: "fill:var(--page)"}), draw("circle", {cx: left + 12, cy: 18, r: 5, style: `fill:${tint(palette[0], 45)};stroke:var(--box-line)`}), draw("text", {x: left + 22, y: 22}, "limited by memory"), draw("rect", {x: left + 7, y: 30, width: 10, height: 10, style: `fill:${tint(palette[1], 55)};stroke:var(--box-line)`}), draw("text", {x: left + 22, y: 39}, "by arithmetic"));
  return svg;
}
