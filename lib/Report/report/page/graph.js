// The program as a graph, whose layers and regions are unfolded in place.
const graphPane = {id: "graph", title: "Graph", open: new Set(), view: null};
panes.push(graphPane);

graphPane.draw = (pane) => {
  const g = state.program.graph;
  if (!g) { pane.append(missing("graph")); return; }
  const clusters = g.drawings.flatMap((d) => d.nodes).filter((n) => n.kind === "cluster");
  const box = el("div", {class: "draw graph", tabindex: 0, role: "img", "aria-label": "graph of the program"});
  const fit = () => { fitGraph(box, true); };
  const all = (open) => { graphPane.open = new Set(open ? clusters.map((c) => c.drawing) : []); render(box); fitGraph(box); }; // large enough to be read
  const button = (text, title, click) => el("button", {title, on: {click}}, text);
  pane.append(el("div", {class: "bar"}, button("−", "zoom out", () => graphPane.zoom(0.7, box.clientWidth / 2, box.clientHeight / 2)),
    button("+", "zoom in", () => graphPane.zoom(1.4, box.clientWidth / 2, box.clientHeight / 2)), button("Fit", "the whole graph", fit),
    clusters.length ? button("Unfold all", "layers and regions", () => all(true)) : "", clusters.length ? button("Fold all", "", () => all(false)) : "",
    el("span", {class: "note", style: "margin:0"}, g.gradient_ops ? plural(g.gradient_ops, "op") + " that dtc generates for gradients, in green beside their forward part" : "",
      g.engine === "layers" ? " Plain layout: this dtc was built without Graphviz, or the graph is too large." : "")));
  pane.append(box, el("div", {class: "legend"}, legendItem(axisSwatches(state.program.axes.filter((a) => state.program.collectives.some((c) => c.axes.some((x) => axisKeys([x])[0] === axisKeys([a])[0])))), "collectives by axis; ×N: N messages in one run"),
    el("span", {}, "line width: bytes; dashed: resharded; ▸ layer or region", el("span", {class: "mouse"}, ": click to unfold"))));
  graphPane.box = box;
  graphPane.view = {x: 0, y: 0, scale: 1, min: 0.03, max: 4};
  graphPane.zoom = movable(box, graphPane.view, () => graphPane.place());
  render(box);
  requestAnimationFrame(() => fitGraph(box));
};
graphPane.reveal = (key) => {
  const g = state.program.graph;
  if (!g || !graphPane.box) return;
  if (!graphPane.box.querySelector("g.node:not(.cluster)[data-k]")) return;
  const wanted = related(key), lit = [...graphPane.box.querySelectorAll("g.node")].find((n) => n.dataset.k && isLit(n, wanted));
  if (lit) moveTo(lit);
};
// Moves a box to the middle, unless it is seen.
function moveTo(node) {
  const at = node.getBoundingClientRect(), r = graphPane.box.getBoundingClientRect(), v = graphPane.view;
  if (at.left >= r.left && at.right <= r.right && at.top >= r.top && at.bottom <= r.bottom) return;
  v.x += r.left + r.width / 2 - (at.left + at.width / 2);
  v.y += r.top + r.height / 2 - (at.top + at.height / 2);
  graphPane.place();
}

const axisSwatches = (axes) => axes.map((a) => el("span", {class: "ax", style: `color:${axisColor(a)};margin-right:6px`}, "■ " + a));
const legendItem = (sign, text) => el("span", {}, sign, " ", text);

// `whole`: at any scale. Otherwise text stays readable: a very large graph is shown from its top.
function fitGraph(box, whole = false) {
  const v = graphPane.view, w = box.clientWidth, h = box.clientHeight;
  if (!w || !graphPane.size) return;
  const across = (w - 20) / graphPane.size.width, down = (h - 20) / graphPane.size.height, all = Math.min(across, down);
  const least = w < 500 ? 0.65 : 0.35; // of a phone, the whole of a graph is too small to read
  v.scale = Math.min(1.25, whole || all >= least ? all : Math.max(Math.min(across, 0.6), least));
  v.x = across >= v.scale ? (w - graphPane.size.width * v.scale) / 2 : -startOf(graphPane.boxes, w / v.scale, h / v.scale) * v.scale;
  v.y = Math.max((h - graphPane.size.height * v.scale) / 2, 10);
  graphPane.place();
}
// The left end of a window onto the start of a program: its first box is seen, and of the others as few as can be are cut.
function startOf(boxes, width, height) {
  const nodes = state.program.graph.drawings[0].nodes, seen = boxes.filter((b) => b[1] < height);
  const first = boxes[Math.max(0, nodes.findIndex((n) => n.kind === "argument"))] || [0, 0, 0, 0], gap = 12;
  const middle = first[0] + first[2] / 2 - width / 2;
  const cut = (x) => seen.filter((b) => (b[0] < x && b[0] + b[2] > x) || (b[0] < x + width && b[0] + b[2] > x + width)).length;
  const ends = seen.slice(0, 300).flatMap((b) => [b[0] - gap, b[0] + b[2] + gap - width]).filter((x) => x <= first[0] && x + width >= first[0] + first[2]);
  return [middle, ...ends].map((x) => [cut(x), Math.abs(x - middle), x]).sort((a, b) => a[0] - b[0] || a[1] - b[1])[0][2];
}

// Makes room for unfolded nodes: along each direction a monotone map, which stretches the ranges of their boxes.
function stretch(ranges) {
  const ends = [...new Set(ranges.flatMap((r) => [r.from, r.to]))].sort((a, b) => a - b);
  const pieces = [];
  for (let i = 0; i + 1 < ends.length; ++i) {
    const factor = Math.max(1, ...ranges.filter((r) => r.from <= ends[i] && r.to >= ends[i + 1]).map((r) => r.size / (r.to - r.from)));
    if (factor > 1) pieces.push({from: ends[i], to: ends[i + 1], factor});
  }
  return (x) => {
    let out = x;
    for (const p of pieces) if (x > p.from) out += (Math.min(x, p.to) - p.from) * (p.factor - 1);
    return out;
  };
}

// A drawing with what is unfolded in it: its element and size. Adds the frames of what is unfolded, with their boxes.
function renderDrawing(number, frames) {
  const g = state.program.graph, top = g.drawings[number], pad = 12, head = 20, inside = new Map();
  const isOpen = (n) => n.kind === "cluster" && graphPane.open.has(n.drawing);
  for (const n of top.nodes) if (isOpen(n)) { const own = []; inside.set(n, {...renderDrawing(n.drawing, own), frames: own}); }
  const toX = stretch([...inside].map(([n, d]) => ({from: n.box[0], to: n.box[0] + n.box[2], size: d.width + 2 * pad})));
  const toY = stretch([...inside].map(([n, d]) => ({from: n.box[1], to: n.box[1] + n.box[3], size: d.height + 2 * pad + head})));
  const root = draw("g", {"data-drawing": number});
  const shown = top.nodes.map((n) => {
    const x0 = toX(n.box[0]), y0 = toY(n.box[1]), x1 = toX(n.box[0] + n.box[2]), y1 = toY(n.box[1] + n.box[3]), d = inside.get(n);
    const w = d ? Math.max(x1 - x0, d.width + 2 * pad) : n.box[2], h = d ? y1 - y0 : n.box[3];
    return [(x0 + x1 - w) / 2, (y0 + y1 - h) / 2, w, h];
  });
  drawEdges(root, top, (x, y) => [toX(x), toY(y)], shown);
  top.nodes.forEach((n, i) => {
    const [x, y, w, h] = shown[i], d = inside.get(n);
    if (!d) { root.append(drawNode(n, i, x, y, n.kind === "cluster" ? n.drawing : -1)); return; }
    const frame = draw("g", {class: "node cluster open", "data-k": "", "data-n": i}, draw("rect", {class: "shape", x, y, width: w, height: h, rx: 6, style: "fill:var(--pane)"}),
      draw("text", {x: x + 8, y: y + 15, style: "font-weight:600"}, "▾ " + n.name + (n.equal > 1 ? " (" + n.equal + " equal layers)" : "")));
    frame.addEventListener("click", (e) => { e.stopPropagation(); toggleCluster(n.drawing); });
    const dx = x + (w - d.width) / 2, dy = y + (h - d.height + head) / 2;
    d.root.setAttribute("transform", `translate(${dx} ${dy})`);
    root.append(frame, d.root);
    frames.push({drawing: n.drawing, x, y, w, h}, ...d.frames.map((f) => ({...f, x: f.x + dx, y: f.y + dy})));
  });
  return {root, width: toX(top.width), height: toY(top.height), shown};
}
function render(box) {
  const frames = [], {root, width, height, shown} = renderDrawing(0, frames), outer = draw("g", {}, root);
  graphPane.frames = new Map(frames.map((f) => [f.drawing, f]));
  graphPane.size = {width, height}, graphPane.boxes = shown;
  const svg = draw("svg", {width: "100%", height: "100%"}, draw("defs", {}, arrow("tip", "var(--box-line)"), state.program.axes.map((a, i) => arrow("tip" + i, axisColor(a)))), outer);
  box.replaceChildren(svg);
  graphPane.place = () => outer.setAttribute("transform", `translate(${graphPane.view.x} ${graphPane.view.y}) scale(${graphPane.view.scale})`);
  graphPane.place();
  paint(box);
}
function toggleCluster(i) {
  if (document.body.dataset.dragged) return;
  if (graphPane.open.has(i)) graphPane.open.delete(i); else graphPane.open.add(i);
  render(graphPane.box);
  const frame = graphPane.frames.get(i), box = graphPane.box, v = graphPane.view;
  if (!frame) { fitGraph(box); return; }
  // The unfolded part, from its top, large enough to be read.
  v.scale = Math.min(1, Math.max(Math.min(box.clientWidth / (frame.w + 40), box.clientHeight / (frame.h + 60)), Math.min(box.clientWidth / (frame.w + 40), 0.7), 0.45));
  v.x = box.clientWidth / 2 - (frame.x + frame.w / 2) * v.scale;
  v.y = Math.max(30 - frame.y * v.scale, box.clientHeight / 2 - (frame.y + frame.h / 2) * v.scale);
  if (frame.h * v.scale > box.clientHeight - 60) v.y = 40 - frame.y * v.scale;
  graphPane.place();
}
function arrow(id, color) {
  return draw("marker", {id, viewBox: "0 0 8 8", refX: 7.5, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto"},
    draw("path", {d: "M0 0L8 4L0 8z", style: `fill:${color}`}));
}
// The ends of an edge stay where they are on the borders of their boxes, which may be elsewhere than the map `at` says:
// the curve follows, in proportion.
function curve(drawing, e, at, shown) {
  const points = [];
  for (let i = 0; i + 1 < e.points.length; i += 2) points.push(at(e.points[i], e.points[i + 1]));
  if (!shown || points.length < 2) return points;
  const moved = (p, x, y, n) => {
    const old = drawing.nodes[n].box, now = shown[n], share = (v, from, size) => Math.min(1, Math.max(0, (v - from) / size));
    return [now[0] + share(x, old[0], old[2]) * now[2] - p[0], now[1] + share(y, old[1], old[3]) * now[3] - p[1]];
  };
  const last = points.length - 1, first = moved(points[0], e.points[0], e.points[1], e.from),
    end = moved(points[last], e.points[2 * last], e.points[2 * last + 1], e.to);
  return points.map((p, i) => [0, 1].map((k) => p[k] + first[k] * (1 - i / last) + end[k] * i / last));
}
// `shown`: the boxes of the nodes, where they are not those of the drawing.
function drawEdges(root, drawing, at, shown) {
  const most = Math.max(1, ...drawing.edges.map((e) => e.bytes));
  for (const e of drawing.edges) {
    const points = curve(drawing, e, at, shown).map((p) => p.map((v) => Math.round(v)).join(" "));
    if (points.length < 2) continue;
    const d = "M" + points[0] + (points.length >= 4 ? "C" : "L") + points.slice(1).join(" ");
    const c = (e.collectives || [])[0], axis = c === undefined ? -1 : state.program.axes.indexOf(state.program.collectives[c].axes[0]);
    const v = state.program.values[e.value];
    root.append(draw("path", {class: "edge shape", d, "data-k": keys("v" + e.value, (e.collectives || []).map((k) => "c" + k)),
      "data-ends": e.from + " " + e.to, style: `fill:none;stroke-width:${(1 + 3 * Math.sqrt(e.bytes / most)).toFixed(1)};` + (axis >= 0 ? `stroke:${axisColor(state.program.axes[axis])};stroke-dasharray:6 3` : ""),
      "marker-end": `url(#tip${axis >= 0 ? axis : ""})`}, draw("title", {}, (v ? v.name + ": " + v.type + " " + (v.sharding ? v.sharding.text : "") : "") +
        (e.collectives ? "\nresharded by " + e.collectives.map((k, i) => collectiveText(state.program.collectives[k]) + (e.messages[i] > 1 ? " ×" + e.messages[i].toLocaleString("en") : "")).join(", ") : ""))));
  }
}
const nodeColors = {op: "var(--box)", argument: "var(--page)", results: "var(--page)", port: "var(--page)", cluster: "var(--pane)"};
const nodeKeys = (n) => keys((n.values || []).slice(0, n.lines ? 9999 : 9).map((v) => "v" + v), n.line >= 0 ? "l" + n.line : [], (n.lines || []).map((l) => "l" + l), (n.collectives || []).map((c) => "c" + c));
function drawNode(n, number, x, y, cluster = -1) {
  const [, , w, h] = n.box;
  const node = draw("g", {class: "node " + n.kind, "data-n": number, transform: `translate(${x} ${y})`, "data-k": nodeKeys(n)},
    draw("rect", {class: "shape", width: w, height: h, rx: n.kind === "argument" || n.kind === "port" ? 10 : 3, style: `fill:${n.backward ? tint(palette[2], n.kind === "cluster" ? 12 : 22) : nodeColors[n.kind]}` + (n.kind === "port" ? ";stroke-dasharray:3 2" : "")}));
  n.text.forEach((t, i) => node.append(draw("text", {x: 8, y: 15 + 15 * i, class: i && n.kind !== "cluster" ? "dim" : "", style: i ? "" : "font-weight:600"}, t)));
  const messages = new Map(); // by what is written: its color, and the number in one run
  (n.collectives || []).forEach((id, i) => {
    const c = state.program.collectives[id], one = messages.get(collectiveText(c)) || {color: axisColor(c.axes[0]), count: 0};
    one.count += n.messages[i];
    messages.set(collectiveText(c), one);
  });
  const most = [...messages].sort((a, b) => b[1].count - a[1].count), shown = most.length > 4 ? 3 : most.length;
  const line = (i, color, text) => node.append(draw("text", {x: 8, y: 15 + 15 * (n.text.length + i), style: `fill:${color};font-weight:600`}, text));
  most.slice(0, shown).forEach(([text, one], i) => line(i, one.color, "● " + text + (one.count > 1 ? " ×" + one.count.toLocaleString("en") : "")));
  if (shown < most.length) line(shown, "inherit", `+ ${most.length - shown} more`);
  if (cluster >= 0) node.addEventListener("click", (e) => { e.stopPropagation(); toggleCluster(cluster); });
  return node;
}
// What a box says, in full: also its messages, and the values of a gradient.
function wordsOf(n) {
  const p = state.program, line = n.backward && n.line >= 0 ? p.lineAt.get(n.line) : null;
  return [...n.text, n.name, ...(n.kind === "cluster" ? [] : n.collectives || []).map((c) => collectiveText(p.collectives[c])),
    ...((line && line.values) || []).map((v) => "gradient of " + (p.values[v] ? p.values[v].name : ""))].filter(Boolean).join("\n").toLowerCase();
}
// The boxes that have the words, also in folded layers: {drawing, number}. Ports stand for boxes elsewhere.
function searchGraph(words) {
  const g = state.program.graph;
  return words && g ? g.drawings.flatMap((d, drawing) => d.nodes.map((n, number) => ({drawing, number, node: n})))
    .filter(({node}) => node.kind !== "port" && wordsOf(node).includes(words)) : [];
}
// Unfolds what a box is in, and moves to it.
function goToNode({drawing, number, node}) {
  const drawings = state.program.graph.drawings;
  for (let inside = drawing; inside > 0;) {
    graphPane.open.add(inside);
    inside = drawings.findIndex((d) => d.nodes.some((n) => n.kind === "cluster" && n.drawing === inside));
  }
  show("graph");
  render(graphPane.box);
  select(nodeKeys(node).split(" ")[0]);
  const one = graphPane.box.querySelector(`g[data-drawing="${drawing}"] > g.node[data-n="${number}"]`);
  if (!one) return;
  one.classList.add("found");
  graphPane.view.scale = Math.max(graphPane.view.scale, 0.7);
  graphPane.place();
  moveTo(one);
}
