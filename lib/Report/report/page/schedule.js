// The steps of a device over time, by stream, and the diagram of a pipeline.
const schedulePane = {id: "schedule", title: "Schedule", from: 0, to: 0, measured: -1};
panes.push(schedulePane);

// What is drawn: the model's steps, or a device of a trace, whose rows are executions of these steps.
function shownSchedule() {
  const s = state.program.schedule, device = s.measured && s.measured.devices[schedulePane.measured];
  if (!device) return {us: s.us, compute_us: s.compute_us, exposed_us: s.exposed_us, waited_us: s.waited_us, rows: state.program.steps.map((row, index) => ({...row, index, wait_us: row.begin_us - row.waited_us}))};
  const copy = {kind: "compute", what: "copy", value: "of a carried result", line: -1, collective: -1, kernel: -1};
  device.rows ??= rowsOf(device.steps).map((r) => ({...(s.rows[r.step] || copy), ...r, index: r.step, wait_us: r.begin_us, times: 1}));
  return {...device, us: s.measured.us, rows: device.rows};
}
// A choice between the model and the measured devices.
function measuredChoice() {
  const s = state.program.schedule;
  if (!s.measured) return "";
  const choose = (i) => { schedulePane.measured = i; redraw(); }, on = schedulePane.measured >= 0;
  return [el("button", {title: "the schedule on the nominal machine", "aria-pressed": String(!on), on: {click: () => choose(-1)}}, "Model"), el("button", {"aria-pressed": String(on), on: {click: () => choose(0)}}, "Measured"),
    on && s.measured.devices.length > 1 ? el("select", {"aria-label": "measured device", on: {change: (e) => choose(Number(e.target.value))}}, s.measured.devices.map((d, i) => el("option", {value: i, selected: i === schedulePane.measured}, "device " + d.name))) : ""];
}

schedulePane.draw = (pane) => {
  const p = state.program, s = p.schedule;
  if (!s) { pane.append(missing("schedule")); return; }
  if (s.pipeline) pane.append(...pipelineDiagram(s.pipeline, pane.clientWidth - 24));
  if (!s.measured || schedulePane.measured >= s.measured.devices.length) schedulePane.measured = -1;
  const view = shownSchedule(), measured = schedulePane.measured >= 0, share = view.us > 0 ? Math.round(view.exposed_us / view.us * 100) : 0;
  const who = s.devices ? "devices " + s.devices.join(", ") + " (" + s.function + ")" : "each device";
  pane.append(el("h2", {}, "Steps of ", measured ? "device " + view.name + ", measured" : who + ", compiled for " + p.target),
    el("p", {class: "note"}, `One run takes ${s.complete || measured ? "" : "≥ "}${timeText(view.us)} ${measured ? "(" + timeText(s.us) + " in the model, on the nominal machine; dtc view of the trace has a model at the measured rates)" : "on the nominal machine"}: ${timeText(view.compute_us)} of computation, and ${timeText(view.exposed_us)} (${share} %) in which the device waits for messages.` + (view.waited_us > 0 ? ` It waits ${timeText(view.waited_us)} for other ${s.pipeline && !measured ? "stages" : "devices"}.` : "") + (s.complete || measured ? "" : " Unknown sizes count as nothing, unknown loops as one iteration.")));
  schedulePane.from = 0, schedulePane.to = view.us || 1;
  const box = el("div", {class: "draw", tabindex: 0, role: "img", "aria-label": "steps over time"});
  const zoom = (factor) => { zoomTime(factor, 0.5); };
  pane.append(el("div", {class: "bar"}, functionChoice(), measuredChoice(), el("button", {title: "zoom out", on: {click: () => zoom(1 / 1.6)}}, "−"), el("button", {title: "zoom in", on: {click: () => zoom(1.6)}}, "+"),
    el("button", {on: {click: () => { schedulePane.from = 0, schedulePane.to = view.us || 1; drawSteps(); }}}, "All"), el("span", {class: "note mouse broad", style: "margin:0"}, "wheel: zoom; drag: move")), box);
  schedulePane.box = box;
  box.addEventListener("wheel", (e) => { e.preventDefault(); const r = box.getBoundingClientRect(); zoomTime(Math.exp(-e.deltaY * 0.0015), Math.min(Math.max((e.clientX - r.left - schedulePane.left) / (r.width - schedulePane.left - 10), 0), 1)); }, {passive: false});
  let drag = null;
  box.addEventListener("pointerdown", (e) => { drag = {x: e.clientX, from: schedulePane.from, to: schedulePane.to}; });
  box.addEventListener("pointermove", (e) => {
    if (!drag || Math.abs(e.clientX - drag.x) < 4 || drag.to - drag.from >= view.us * 0.999) return;
    document.body.dataset.dragged = "1";
    const shift = Math.min(Math.max((drag.x - e.clientX) / (box.clientWidth - 100) * (drag.to - drag.from), -drag.from), view.us - drag.to);
    schedulePane.from = drag.from + shift, schedulePane.to = drag.to + shift;
    drawSteps();
  });
  for (const end of ["pointerup", "pointerleave"]) box.addEventListener(end, () => { drag = null; setTimeout(() => delete document.body.dataset.dragged, 0); });
  const swatch = (style) => draw("svg", {width: 16, height: 11, style: "display:inline-block;vertical-align:-1px"}, hatchDefs(), draw("rect", {width: 16, height: 11, style}));
  pane.append(el("div", {class: "legend"}, legendItem(swatch("fill:var(--compute)"), "kernel or library call"), [...new Set(s.streams.slice(1).map((n) => n.split(", ")[0].replace(/:.*/, "")))].map((a) => legendItem(swatch(`fill:${tint(axisColor(a), 45)}`), "messages over " + a + (s.streams.some((n) => n.startsWith(a + ", ")) ? ", or over it and others" : ""))),
    legendItem(swatch("fill:url(#wait)"), "exposed: the device waits for a message"), view.waited_us > 0 ? legendItem(swatch("fill:url(#apart)"), "it waits for other devices to come") : "", view.rows.some((x) => x.kind === "repeat") ? legendItem(swatch("fill:var(--box);stroke:var(--box-line)"), "further iterations of a loop") : ""));
  drawSteps();
  pane.append(stepTable());
};
schedulePane.reveal = (key) => {
  if (!schedulePane.box || !state.program.schedule) return;
  const set = related(key), i = state.program.steps.findIndex((s, n) => stepKeys(s, n).some((k) => set.has(k)));
  if (i < 0) return;
  const view = shownSchedule(), s = view.rows.find((x) => x.index === i), wide = schedulePane.to - schedulePane.from;
  if (!s || (s.begin_us >= schedulePane.from && s.begin_us <= schedulePane.to)) { drawSteps(); return; }
  schedulePane.from = Math.max(0, Math.min(s.begin_us - wide / 3, view.us - wide)), schedulePane.to = schedulePane.from + wide;
  drawSteps();
};

function functionChoice() {
  const p = state.program;
  if (p.schedules.length < 2) return "";
  return el("select", {"aria-label": "devices", on: {change: (e) => { if ("sb".includes(state.selected[0])) select(""); showFunction(Number(e.target.value)); }}},
    p.schedules.map((s, i) => el("option", {value: i, selected: i === p.functionIndex}, (s.devices ? "devices " + short(s.devices.join(", "), 30) + " " : "") + s.function)));
}
const streamColor = (name) => axisColor(name.split(", ")[0].replace(/:.*/, ""));
const stepKeys = (s, i) => ["s" + i, s.collective >= 0 ? "c" + s.collective : "", s.kernel >= 0 ? "k" + s.kernel : "", s.line >= 0 ? "l" + s.line : "",
  ...(s.kind === "communicate" ? axisKeys(state.program.schedule.streams[s.stream].split(", ")) : [])].filter(Boolean);
const hatchDefs = () => draw("defs", {}, draw("pattern", {id: "apart", width: 6, height: 6, patternUnits: "userSpaceOnUse"},
  draw("rect", {width: 6, height: 6, style: "fill:var(--pane)"}), draw("circle", {cx: 3, cy: 3, r: 1.1, style: "fill:var(--dim)"})), draw("pattern", {id: "wait", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)"},
  draw("rect", {width: 6, height: 6, style: "fill:var(--wait)"}), draw("line", {x1: 0, y1: 0, x2: 0, y2: 6, style: "stroke:var(--text);stroke-width:1.6;opacity:.55"})));

function zoomTime(factor, at) {
  const all = shownSchedule().us || 1, width = schedulePane.to - schedulePane.from;
  const wide = Math.min(Math.max(width / factor, all / 1e6), all), center = schedulePane.from + width * at;
  schedulePane.from = Math.min(Math.max(center - wide * at, 0), all - wide);
  schedulePane.to = schedulePane.from + wide;
  drawSteps();
}
function drawSteps() {
  const p = state.program, s = p.schedule, box = schedulePane.box, lane = 34, left = schedulePane.left = Math.min(150, 12 + 6.8 * Math.max(7, ...s.streams.map((n) => n.length + 5)));
  const width = Math.max(box.clientWidth || 600, 300), room = width - left - 10;
  const {from, to} = schedulePane, scale = room / (to - from), x = (t) => left + (t - from) * scale;
  const bottom = 8 + s.streams.length * lane, svg = draw("svg", {width, height: bottom + 26}, hatchDefs());
  svg.append(draw("clipPath", {id: "time"}, draw("rect", {x: left, y: 0, width: room + 2, height: bottom + 4})));
  for (const t of ticks(to - from, Math.max(2, Math.floor(room / 90)))) {
    const at = x(from + t);
    svg.append(draw("line", {class: "grid", x1: at, y1: 4, x2: at, y2: bottom + 4}), draw("text", {class: "dim", x: at, y: bottom + 17, "text-anchor": at > width - 40 ? "end" : "middle"}, timeText(from + t)));
  }
  s.streams.forEach((name, i) => svg.append(draw("text", {x: 4, y: 8 + i * lane + 19, "data-k": i ? keys(axisKeys(name.split(", "))) : "", style: i ? `fill:${streamColor(name)};font-weight:600` : ""}, i ? short("over " + axesText(name.split(", ")), 20) : "compute")));
  const body = draw("g", {"clip-path": "url(#time)"}), last = new Array(s.streams.length).fill(-1e9);
  for (const step of shownSchedule().rows) {
    const i = step.index, end = step.begin_us + step.us;
    if (step.waited_us > 0 && end >= from && step.wait_us <= to) {
      const w0 = Math.max(x(step.wait_us), left), ww = Math.min(x(step.wait_us + step.waited_us), width) - w0;
      if (ww > 0.4) for (const [y, h] of [[8, lane - 8], [8 + step.stream * lane, lane - 8]])
        body.append(draw("rect", {x: w0, y, width: ww, height: h, style: "fill:url(#apart)"}, draw("title", {}, `waits for other devices before ${stepName(step)}\n${timeText(step.waited_us)} from ${timeText(step.wait_us)}`)));
    }
    if (end < from || step.begin_us > to) continue;
    const x0 = Math.max(x(step.begin_us), left - 5), x1 = Math.min(x(end), width + 5), y = 8 + step.stream * lane;
    const strong = related(state.selected || "-").size && stepKeys(step, i).some((k) => state.selected && related(state.selected).has(k));
    if (x1 - last[step.stream] < 0.4 && !strong) continue; // not visible beside the one before
    last[step.stream] = x1;
    const w = Math.max(x1 - x0, 0.7), fill = step.kind === "communicate" ? tint(streamColor(s.streams[step.stream]), 45) : step.kind === "repeat" ? "var(--box)" : "var(--compute)";
    const g = draw("g", {"data-k": stepKeys(step, i).join(" ")}, draw("rect", {class: "shape", x: x0, y, width: w, height: lane - 8, style: `fill:${fill};` + (w < 2.5 ? "stroke:none" : w < 6 ? "stroke-width:.4" : "")}));
    const label = step.kind === "repeat" ? "… " + (step.times - 1).toLocaleString("en") + " more iterations" : step.what + " " + step.value;
    g.append(draw("title", {}, `${stepName(step)}\n${step.kind === "repeat" ? "" : kindText(step.what) + "\n"}${timeText(step.us)} from ${timeText(step.begin_us)}` + (step.times > 1 ? `\n${step.times} times` : "") + (step.exposed_us > 0 ? "\nexposed: " + timeText(step.exposed_us) : "") + (step.waited_us > 0 ? "\nwaits for other devices: " + timeText(step.waited_us) : "")));
    if (step.exposed_us > 0) {
      const e0 = Math.max(x(end - step.exposed_us), left), ew = Math.max(Math.min(x(end), width) - e0, 0.5);
      g.append(draw("rect", {x: e0, y: y + lane - 16, width: ew, height: 8, style: "fill:url(#wait);pointer-events:none"}));
      body.append(draw("rect", {x: e0, y: 8 + 8, width: ew, height: lane - 24, style: "fill:url(#wait);opacity:.8;pointer-events:none"}));
    }
    const letters = Math.floor((w - 6) / 6.7);
    if (letters >= 3) g.append(draw("text", {x: Math.max(x0, left) + 3, y: y + (step.exposed_us > 0 ? 13 : 17), style: "pointer-events:none"}, stepLabel(step, label, Math.floor((Math.min(x1, width) - Math.max(x0, left) - 6) / 6.7))));
    body.append(g);
  }
  svg.append(body);
  box.replaceChildren(svg);
  paint(box);
}
// What fits: the kind of step first, then its value.
function stepLabel(step, label, letters) {
  if (label.length <= letters || step.kind === "repeat") return short(label, letters);
  if (letters < step.what.length + 5) return step.what.length <= letters ? step.what : step.what.slice(0, letters - 1) + "…";
  return step.what + " " + short(step.value, letters - step.what.length - 1);
}
// The longest kinds of steps, in words: what print and screen readers show.
function stepTable() {
  const kinds = new Map();
  for (const s of shownSchedule().rows) {
    if (s.kind === "repeat") continue;
    const name = s.kind === "communicate" ? s.what + " over " + axesText(state.program.schedule.streams[s.stream].split(", ")) : s.what;
    const one = kinds.get(name) || {name, what: s.what, count: 0, us: 0, exposed: 0};
    one.count += s.times, one.us += s.us * s.times, one.exposed += s.exposed_us * s.times;
    kinds.set(name, one);
  }
  const rows = [...kinds.values()].sort((a, b) => b.us - a.us);
  return el("div", {class: "wide"}, el("h2", {}, "Time by kind of step"), el("table", {}, el("tr", {}, el("th", {}, "step"), [["executions", "in one run"], ["time", "of all executions"], ["exposed", "the part of it in which the device waits and computes nothing"]].map(([t, title]) => el("th", {class: "r", title}, t))),
    rows.slice(0, 14).map((r) => el("tr", {}, el("td", {title: kindText(r.what)}, r.name), el("td", {class: "r"}, r.count.toLocaleString("en")), el("td", {class: "r"}, timeText(r.us)), el("td", {class: "r"}, r.exposed ? timeText(r.exposed) : "")))));
}

// A drawing in a frame, at one to eight times its size. `make`: of a scale.
function zoomed(what, make) {
  let scale = 1;
  const frame = el("div", {class: "draw zoomed"});
  const change = (factor) => { scale = Math.min(8, Math.max(1, scale * factor)); frame.replaceChildren(make(scale)); paint(frame); };
  change(1);
  const button = (sign, title, factor) => el("button", {title, "aria-label": title, on: {click: () => change(factor)}}, sign);
  return [el("div", {class: "bar"}, button("−", `${what}: smaller`, 0.5), button("+", `${what}: larger`, 2)), frame];
}

function pipelineDiagram(run, width) {
  const actions = rowsOf(run.actions), end = Math.max(1e-9, ...actions.map((a) => a.begin_us + a.us)), lane = 28, left = 52;
  const shortest = Math.min(...actions.filter((a) => a.us > 0).map((a) => a.us)), letters = run.chunks > 1 ? 4 : 2 + (run.microbatches > 9);
  // As wide as the page, unless the shortest part then has no room for its label in small letters.
  const least = end / shortest * (letters * 5.5 + 2), fits = Math.max(width - left - 12, 260), natural = least <= fits ? fits : Math.min(least, 3200);
  const colors = {F: "var(--box)", B: "var(--compute)", W: "var(--page)"}, bottom = 6 + run.devices * lane;
  const diagram = (scale) => {
    const room = natural * scale, x = (t) => left + t / end * room;
    const svg = draw("svg", {width: left + room + 12, height: bottom + 24});
    for (const t of ticks(end, Math.max(2, Math.floor(room / 110)))) svg.append(draw("line", {class: "grid", x1: x(t), y1: 2, x2: x(t), y2: bottom}), draw("text", {class: "dim", x: x(t), y: bottom + 14, "text-anchor": x(t) > left + room - 30 ? "end" : "middle"}, timeText(t)));
    for (let d = 0; d < run.devices; ++d) svg.append(draw("text", {x: 4, y: 6 + d * lane + 17, "data-k": keys("p" + d, "q" + d)}, "pp=" + d), draw("rect", {x: left, y: 6 + d * lane, width: room, height: lane - 4, style: "fill:var(--pane)"}));
    for (const a of actions) {
      if (a.us <= 0) continue;
      const w = a.us / end * room, label = a.phase + a.microbatch + (run.chunks > 1 ? "." + Math.floor(a.stage / run.devices) : "");
      svg.append(draw("g", {"data-k": keys("p" + a.device, "q" + a.device)}, draw("rect", {class: "shape", x: x(a.begin_us), y: 6 + a.device * lane, width: w, height: lane - 4, style: `fill:${colors[a.phase]}`}),
        w >= label.length * 5.5 + 1 ? draw("text", {x: x(a.begin_us) + w / 2, y: 6 + a.device * lane + 16, "text-anchor": "middle", style: w < label.length * 6.8 + 2 ? "font-size:9px" : ""}, label) : "",
        draw("title", {}, `${{F: "forward", B: "backward", W: "weights"}[a.phase]} of micro-batch ${a.microbatch}, stage ${a.stage}\n${timeText(a.us)} from ${timeText(a.begin_us)}`)));
    }
    return svg;
  };
  const sign = (phase) => el("span", {style: `background:${colors[phase]};padding:0 5px;border:1px solid var(--box-line)`}, phase);
  return [el("h2", {}, "Pipeline"), el("p", {class: "note"}, run.title + `. ${plural(run.messages, "message")} between stages move ${bytesText(run.bytes)} in a step. A row is the stages of one index along pp; empty parts are the bubble. With messages, as below, devices compute nothing for ${(run.idle_share * 100).toFixed(1)} % of a step.`),
    ...zoomed("pipeline", diagram), el("div", {class: "legend"}, legendItem(sign("F"), "forward of micro-batch n"), legendItem(sign("B"), "backward"), actions.some((a) => a.phase === "W") ? legendItem(sign("W"), "gradients of weights") : "")];
}
