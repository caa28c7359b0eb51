// The program as written, with the sharding and the cost of each line.
const sourcePane = {id: "source", title: "Source", open: new Set()};
panes.push(sourcePane);

sourcePane.draw = (pane) => {
  const p = state.program, table = el("div", {class: "source", role: "table"});
  sourcePane.table = table;
  p.priced = p.source.lines.some((l) => l.us || l.comm_us); // not if it does not compile
  table.append(el("div", {class: "row head"}, el("div", {class: "n"}, ""), el("div", {class: "t"}, "program" + (p.priced ? " (grey: computes nothing)" : "")),
    el("div", {class: "s"}, "propagated sharding"), el("div", {class: "c", title: "time on the nominal machine, computing and communicating (each part in the color of its mesh axis); bytes of the result on one device"},
      el("span", {style: "color:var(--compute)"}, "■ "), "computes", el("br"), el("span", {style: "white-space:nowrap"}, p.axes.slice(0, 2).map((a) => el("span", {style: `color:${axisColor(a)}`, title: a}, "■")), " messages"), el("br"), "result's size")));
  const most = Math.max(1e-9, ...p.source.lines.map((l) => (l.us || 0) + (l.comm_us || 0)));
  const groups = sourceGroups(p);
  let file = 0;
  for (const group of groups) {
    while (file < p.source.files.length && group.lines.length && group.lines[0].line >= p.source.files[file].first) {
      if (file > 0 || p.source.files.length > 1)
        table.append(el("div", {class: "row file"}, el("div", {class: "n"}), el("div", {class: "t"}, p.source.files[file].name)));
      ++file;
    }
    if (group.layer < 0) {
      for (const line of group.lines) addLine(table, line, most);
      continue;
    }
    const body = el("div", {hidden: true});
    const head = el("div", {class: "row layer", tabindex: 0, role: "button"});
    const sum = (name) => group.lines.reduce((t, l) => t + (l[name] || 0), 0);
    const own = keys(group.lines.map((l) => lineKeys(l)));
    // A folded layer stands for its lines.
    const paintHead = () => { head.dataset.k = body.hidden ? own : ""; head.replaceChildren(el("div", {class: "n"}, body.hidden ? "▸" : "▾"),
      el("div", {class: "t"}, group.name + "  "), el("div", {class: "s"}, group.lines.length ? plural(group.lines.length, "line") : ""),
      el("div", {class: "c"}, costText(sum("us"), sum("comm_us"), sum("result_bytes")))); }
    const toggle = (open) => {
      body.hidden = !open;
      if (open && !body.childElementCount) for (const line of group.lines) addLine(body, line, most);
      paintHead();
      paint(head.parentNode || body);
    };
    group.toggle = toggle, group.isOpen = () => !body.hidden;
    if (group.lines.length) {
      head.addEventListener("click", (e) => { e.stopPropagation(); toggle(body.hidden); });
      head.addEventListener("keydown", (e) => { if (e.key === "Enter" || e.key === " ") e.preventDefault(), toggle(body.hidden); });
    }
    paintHead();
    table.append(head, body);
    if (group.first) toggle(true);
  }
  sourcePane.groups = groups;
  pane.append(table);
};
sourcePane.reveal = (key) => {
  for (const group of sourcePane.groups || [])
    if (group.toggle && !group.isOpen() && group.lines.some((l) => lineKeys(l).some((k) => related(key).has(k)))) group.toggle(true);
};

// Runs of lines of one layer; layers that equal an earlier one have no lines.
function sourceGroups(p) {
  const groups = [], layers = p.source.layers, families = new Map();
  for (const line of p.source.lines) {
    const layer = line.layer ?? -1, last = groups[groups.length - 1];
    if (last && last.layer === layer && (layer >= 0 || last.layer < 0)) last.lines.push(line);
    else groups.push({layer, lines: [line], name: layer >= 0 ? layers[layer].name : ""});
  }
  for (const g of groups) {
    if (g.layer < 0) continue;
    if (g.lines.length < 3) { g.layer = -1; continue; }
    const arguments_ = !g.lines.some((l) => l.text.includes(" = "));
    const family = g.name.replace(/\d+/g, "#") + arguments_;
    g.first = !families.has(family) && !arguments_; // the first layer of each kind is open
    families.set(family, true);
    if (arguments_) g.name += " (arguments)";
    const equal = p.source.folded ? layers.filter((l) => l.equal_to === g.layer) : [];
    if (equal.length) g.name += ` and ${equal.length} equal to it: ${equal[0].name}` + (equal.length > 1 ? ` … ${equal[equal.length - 1].name}` : "");
    else if (!p.source.folded && layers[g.layer].equal_to !== undefined) g.name += ", as " + layers[layers[g.layer].equal_to].name;
  }
  return groups;
}

function lineKeys(line) {
  return ["l" + line.line, ...(line.values || []).map((v) => "v" + v), ...(line.collectives || []).map((c) => "c" + c),
    ...(state.program.kernelsOfLine.get(line.line) || []).map((k) => "k" + k)];
}
function costText(us, comm, bytes) {
  return [us || comm ? timeText(us + comm) : "", us || comm ? el("br") : "", bytes ? bytesText(bytes) : ""];
}
// The parts of the communication of a line by the color of their axis: each collective divides its time among its lines.
function messageParts(line) {
  const parts = new Map();
  for (const c of (line.collectives || []).map((i) => state.program.collectives[i]))
    parts.set(axisColor(axisName(c.axes[0])), (parts.get(axisColor(axisName(c.axes[0]))) || 0) + c.total_seconds / Math.max(c.lines.length, 1));
  const all = [...parts.values()].reduce((t, v) => t + v, 0);
  return all > 0 ? [...parts].map(([color, v]) => [color, v / all * (line.comm_us || 0)]) : [];
}
function costBar(line, most) {
  const us = line.us || 0, comm = line.comm_us || 0;
  if (us + comm < most / 1000) return "";
  const width = (v) => Math.max(v / most * 66, v > 0 ? 1 : 0);
  let x = 67;
  const part = (color, v) => draw("rect", {x: x -= width(v), y: 0, width: width(v), height: 6, style: `fill:${color}`});
  return draw("svg", {width: 68, height: 6}, draw("title", {}, `computes ${timeText(us)}, communicates ${timeText(comm)}`),
    messageParts(line).reverse().map(([color, v]) => part(color, v)), part("var(--compute)", us));
}
// Without the blanks that align columns: the pane is narrower than the file.
function textOf(line) {
  const body = line.text.trimStart(), indent = line.text.length - body.length;
  return " ".repeat(Math.min(indent, 4)) + body.replace(/ {2,}/g, " ") || " ";
}
// How the op computes a value that is resharded.
const madeAs = (v) => v.before ? [el("br"), el("span", {class: "before", title: v.before.pending ? "as the op computes it: partial values, which a collective reduces" : "as the op computes it, before it is resharded"}, "from ", shardingText(v.before))] : "";
function addLine(to, line, most) {
  const p = state.program, values = (line.values || []).map((v) => p.values[v]).filter(Boolean);
  const own = new Map(); // values of several calls that are sharded alike are one
  for (const v of values) {
    const key = v.name + " " + (v.sharding ? v.sharding.text : "") + " " + (v.before ? v.before.text : "");
    own.set(key, {value: v, count: (own.get(key)?.count || 0) + 1});
  }
  const alike = [...own.values()];
  const shown = alike.slice(0, 3).map(({value, count}, i) => [i ? el("br") : "", alike.length > 1 ? value.name.replace(/^.*%/, "%") + " " : "", value.unused ? el("span", {class: "dim", title: "no result depends on it: it is not compiled"}, "unused") : shardingText(value.sharding), count > 1 ? el("span", {class: "dim", title: "calls of this line, which have this sharding"}, ` in ${count} calls`) : "", madeAs(value)]);
  const alone = !values.length && !line.us && !line.comm_us && !(line.collectives || []).length; // nothing beside the text
  to.append(el("div", {class: "row" + (alone ? " alone" : "") + (!p.priced || values.length || line.us || /^\s*(func|spmd|mesh|return|\}|\/\/)/.test(line.text) ? "" : " plain"), "data-k": keys(lineKeys(line)), tabindex: values.length ? 0 : null},
    el("div", {class: "n"}, p.numberOf(line.line)), el("div", {class: "t mono"}, textOf(line)),
    el("div", {class: "s mono"}, shown, alike.length > 3 ? ` +${alike.length - 3}` : "",
      (line.collectives || []).length ? [shown.length ? el("br") : "", chipsOf(line).slice(0, 3), line.collectives.length > 3 ? `+${line.collectives.length - 3}` : ""] : ""),
    el("div", {class: "c"}, costBar(line, most), costText(line.us || 0, line.comm_us || 0, line.result_bytes))));
  for (const d of p.diagnostics)
    if (d.source_line === line.line)
      to.append(el("div", {class: "problem " + d.severity}, `${d.severity}: ${d.message} [${d.kind}]`, d.notes.map((n) => el("div", {}, "note: " + n.message))));
}
