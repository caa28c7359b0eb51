"use strict";
// The pages of `dtc report` and `dtc diff`: state, links between panes, and what all panes use. docs/report.md and docs/diff.md
// document the data.
const doc = JSON.parse(document.getElementById("data").textContent);
const state = {program: null, pane: "", selected: "", hovered: "", drawn: new Set()};

// --- elements ---

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, f] of Object.entries(value)) node.addEventListener(event, f);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(3))
    if (child !== null && child !== undefined && child !== "") node.append(child);
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const byId = (id) => document.getElementById(id);

// --- quantities ---

// A tie rounds to the even number, as in the text that C++ prints.
function whole(v) { const up = Math.round(v); return String(up - v === 0.5 && up % 2 ? up - 1 : up); }
function digits(v) { return v >= 100 ? whole(v) : v >= 10 ? v.toFixed(1) : v.toFixed(2); }
function bytesText(b) {
  if (b < 0) return "−" + bytesText(-b);
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (b < 1024 || unit === "TiB") return (unit === "B" ? Math.round(b) : digits(b)) + " " + unit;
    b /= 1024;
  }
}
function timeText(us) {
  if (us === 0) return "0";
  if (us < 0) return "−" + timeText(-us);
  if (us >= 1e6) return digits(us / 1e6) + " s";
  if (us >= 1e3) return digits(us / 1e3) + " ms";
  return us >= 1 ? digits(us) + " µs" : digits(us * 1e3) + " ns";
}
// "149.31 µs to 149.38 µs": as many digits as tell the ends apart.
function spanText(begin, us) {
  const end = begin + us, largest = Math.max(begin, end);
  if (us === 0 || timeText(begin) !== timeText(end)) return timeText(begin) + " to " + timeText(end);
  const [scale, unit] = largest >= 1e6 ? [1e6, " s"] : largest >= 1e3 ? [1e3, " ms"] : largest >= 1 ? [1, " µs"] : [1e-3, " ns"];
  for (let d = 1; d <= 9; ++d)
    if ((begin / scale).toFixed(d) !== (end / scale).toFixed(d)) return (begin / scale).toFixed(d) + unit + " to " + (end / scale).toFixed(d) + unit;
  return timeText(begin) + " to " + timeText(end);
}
function countText(n) {
  for (const [size, unit] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]])
    if (n >= size) return digits(n / (unit === "k" ? 1e3 : size)) + " " + unit;
  return String(Math.round(n));
}
const plural = (n, one, many) => n.toLocaleString("en") + " " + (n === 1 ? one : many || one + "s");
// The ends of a long name.
const short = (text, n) => text.length <= n ? text : text.slice(0, Math.ceil(n / 2) - 1) + "…" + text.slice(text.length - Math.floor(n / 2));
// A property that is computed when it is first read: most of the data belongs to panes that are not shown.
function lazily(object, name, make) {
  Object.defineProperty(object, name, {configurable: true, enumerable: true, get() {
    const value = make();
    Object.defineProperty(object, name, {value, writable: true, configurable: true, enumerable: true});
    return value;
  }});
}
// The rows of a table of the data as objects.
function rowsOf(table) {
  return table.rows.map((row) => {
    const one = {};
    for (let i = 0; i < row.length; ++i) one[table.columns[i]] = row[i];
    if (table.shared) for (let i = 0, same = table.shared.rows[row[0]]; i < same.length; ++i) one[table.shared.columns[i]] = same[i];
    return one;
  });
}
// The same for powers of ten and other round numbers: "10 T".
const roundText = (n) => countText(n).replace(/\.0+(?= |$)/, "");
// Round numbers for the ticks of an axis from 0 to `max`; bytes in powers of 1024.
function byteTicks(max, count) {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log2(Math.max(max, 1)) / 10));
  return ticks(max / unit, count).map((v) => v * unit);
}
function ticks(max, count) {
  if (!(max > 0)) return [0];
  const raw = max / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw);
  const list = [];
  for (let v = 0; v <= max * 1.0001; v += step) list.push(v);
  return list;
}

// --- colors: of Okabe and Ito, which people with color blindness can tell apart ---

const {axes: palette, shards: shardTones, most_shards: mostShardColors} = /*PALETTE*/{};
const dark = () => document.documentElement.dataset.theme === "dark";
function axisColor(name) {
  const at = state.program.axes.indexOf(String(name));
  const color = palette[(at < 0 ? 7 : at) % palette.length];
  return dark() ? `color-mix(in srgb, ${color} 62%, white)` : color;
}
const tint = (color, percent) => `color-mix(in srgb, ${color} ${percent}%, var(--page))`;
const axisName = (a) => typeof a === "string" ? a : a.axis;
// The keys of axes by their names, which may be those of sub-axes ("tp:(2)2").
// Of several, the first key is that of all of them together: "a0+1".
function axisKeys(names) {
  const own = [...new Set(names.map((n) => state.program.axes.indexOf(String(n).replace(/:.*/, ""))))].sort((a, b) => a - b);
  return [own.length > 1 ? "a" + own.join("+") : [], own.map((i) => "a" + i)].flat();
}
// More shards than that are told apart by their numbers.
function shardColor(number, total) {
  if (total === 1 || total > mostShardColors) return "var(--box)";
  const [saturation, light, darkLight] = shardTones[number % 2];
  return `hsl(${Math.round(number * 360 / total)} ${saturation}% ${dark() ? darkLight : light}%)`;
}
// A sharding in braces, with each axis in its color.
function shardingText(sharding) {
  if (!sharding) return "";
  const text = sharding.text.replace(/^@\w*/, "");
  return text.split(/(\w+)/).map((word) => state.program.axes.includes(word)
    ? el("span", {class: "ax", style: `color:${axisColor(word)}`, "data-k": keys(axisKeys([word]))}, word) : word);
}
// A long name breaks after a separator.
const breakable = (text) => String(text).split(/(?<=[_.:/,}\])])(?=\w)/).flatMap((part, i) => i ? [el("wbr"), part] : [part]);
// "p2p in %blocks_1_ffn_sum (F2 stage 0, pp 0 to 1)": micro-batches have equal steps.
const stepName = (s) => s.what + " " + s.value + (s.part ? ` (${s.part})` : "");
// What the steps of its messages are called, where the program has a schedule.
const collectiveValue = (c) => c.name || (c.generated ? "in " : "") + (c.value || "").replace(/@\w+:/, "") + (c.more_values ? ` and ${c.more_values} more` : "");
// What a message without a name of its own is for.
const purposeText = (c) => c.for && c.for !== c.name && !(c.name || "").includes("bucket of ") ? "for " + c.for : "";
// "inner 2 of tp" for the sub-axis "tp:(2)2" of 2 devices, before which the axis has a factor of 2.
function axisText(name) {
  const part = /^(\w+):\((\d+)\)(\d+)$/.exec(name);
  if (!part) return name;
  const axis = state.program.meshes.flatMap((m) => m.axes).find((a) => a.name === part[1]), [pre, size] = [Number(part[2]), Number(part[3])];
  return (pre === 1 ? "outer " : axis && pre * size === axis.size ? "inner " : "middle ") + size + " of " + part[1];
}
const axesText = (names) => names.map(axisText).join(", ");
// The borders of a shard go to the neighbors.
const collectiveText = (c) => c.kind + (c.halo ? " halo " : " ") + axesText(c.axes);
// What the kinds of steps and collectives are, for tooltips.
const kindTexts = {
  "matmul": "a matrix product, by a library or a generated kernel, with its epilogue", "attention": "softmax(q·k)·v in one kernel",
  "elementwise": "a kernel that computes each element by itself", "row-wise": "a kernel that reduces each row and uses the result in the same row: softmax, layer norm",
  "reduction": "a kernel that reduces contiguous elements", "column reduction": "a kernel that sums over rows", "grouped reductions": "several small reductions in one launch",
  "copy": "moves data and computes nothing: concatenate, slice, transpose", "view": "another name for a part of a buffer: no kernel runs",
  "pack": "copies values to one buffer, which is one message", "unpack": "copies the parts of a message to their values",
  "all_reduce": "sums (or the max, …) over the devices; each gets all of it", "reduce_scatter": "sums over the devices; each gets its shard", "all_gather": "each device gets the shards of all",
  "all_to_all": "each device sends a part of its shard to each other one", "all_slice": "each device copies its shard of a value that all hold: no message", "p2p": "messages between pairs of devices",
  "permute": "each device sends its value to one other device", "broadcast_from": "one device sends its value to all", "constant": "a value of the text, loaded once",
};
const kindText = (what) => kindTexts[what] || "a kernel for this op alone";
// `messages`: those of a line in one run.
function chip(id, messages) {
  const c = state.program.collectives[id];
  const color = axisColor(c.axes[0]);
  return el("span", {class: "chip", "data-k": keys("c" + id, axisKeys(c.axes)), style: `color:${color};border-color:${color}`,
    title: collectiveValue(c) + (messages > 1 ? `: ${plural(messages, "message")} of this line in one run` : "")}, collectiveText(c) + (messages > 1 ? " ×" + messages.toLocaleString("en") : ""));
}
const chipsOf = (line) => (line.collectives || []).map((c, i) => chip(c, line.messages[i]));

// --- links. An element has keys: v3 a value, l12 a line, c1 a collective, k2 a kernel, d5 a device, a0 an axis, a0+1 several,
// s7 a step, b4 a buffer, p2 an index along the axis of a pipeline; m12, the buffers of a line, and q2, the boxes of an
// index along the axis of a pipeline, are only lit. Of a page of diff: x0 a cause, r3 a row, g2 a sharding, m1 a collective,
// t5 a computation. u2, the buffers of a kernel, and f1, what a function of the schedule runs, are only lit, too. An element is
// lit if one of its keys is among those of the selection: related(), follow() and describe() belong to each page. ---

function keys(...list) {
  return list.flat(2).filter((k) => k !== undefined && k !== null && !/-1$|undefined|null/.test(k)).join(" ");
}
function paint(root) {
  const marks = [["lit", state.selected], ["hover", state.hovered]];
  for (const [mark, key] of marks) {
    for (const old of root.querySelectorAll("." + mark)) old.classList.remove(mark);
    if (!key) continue;
    const wanted = mark === "hover" ? new Set([key]) : related(key);
    for (const one of root.querySelectorAll("[data-k]"))
      if (isLit(one, wanted)) one.classList.add(mark);
  }
}
// A collective, a kernel or a step is not lit for its line alone if another one is meant.
function isLit(one, wanted) {
  const own = one.dataset.k.split(" "), kind = own[0][0];
  if ("cks".includes(kind) && [...wanted].some((k) => k[0] === kind)) return own.some((k) => k[0] === kind && wanted.has(k));
  return own.some((k) => wanted.has(k));
}
function visiblePanes() { return [...document.querySelectorAll(".pane")].filter((p) => p.offsetParent !== null); }
function select(key, from) {
  state.selected = key || "";
  follow(state.selected);
  for (const pane of visiblePanes()) reveal(pane, from);
  paint(document.body);
  describe();
}
// Unfolds and scrolls a pane so that the first element of the selection is seen.
function reveal(pane, from) {
  const hooks = panes.find((p) => p.id === pane.dataset.pane);
  if (state.selected && hooks && hooks.reveal) hooks.reveal(state.selected);
  paint(pane);
  if (!state.selected || (from && pane.contains(from))) return;
  const all = [...pane.querySelectorAll(".lit")].filter((e) => e.offsetParent && !e.closest(".draw"));
  const lit = all.find((e) => e.dataset.k.split(" ")[0] === state.selected) || all.find((e) => !e.classList.contains("layer")) || all[0];
  if (!lit) return;
  const head = pane.querySelector(".head"), r = lit.getBoundingClientRect(), of = pane.getBoundingClientRect();
  if (r.top < of.top + (head ? head.offsetHeight : 0) || r.bottom > of.bottom) lit.scrollIntoView({block: "center"});
}
function hover(key) {
  if (key === state.hovered) return;
  state.hovered = key;
  for (const pane of visiblePanes()) paint(pane);
}
document.addEventListener("click", (e) => {
  const one = e.target.closest("[data-k]");
  if (!one || !one.dataset.k || document.body.dataset.dragged) return;
  const key = one.dataset.k.split(" ")[0];
  select(key === state.selected && !one.closest("footer") ? "" : key, one);
});
document.addEventListener("mouseover", (e) => {
  const one = e.target.closest("[data-k]");
  hover(one && one.dataset.k ? one.dataset.k.split(" ")[0] : "");
});

const linkTo = (key, text) => el("span", {class: "link", tabindex: 0, "data-k": key}, text);
// --- panes ---

const panes = []; // {id, title, draw(pane), reveal(key)?}; each file adds its own
function show(id) {
  const wanted = panes.find((p) => p.id === id) || panes[1];
  state.pane = wanted.id;
  const narrow = matchMedia("(max-width: 760px)").matches;
  const source = byId("pane-source");
  (narrow ? byId("right") : byId("left")).append(source);
  source.hidden = narrow && wanted.id !== "source";
  if (wanted.id === "source" && !narrow) { byId("pane-source").focus(); return; }
  for (const p of panes) {
    if (p.id !== "source") byId("pane-" + p.id).hidden = p.id !== wanted.id;
    byId("tab-" + p.id).setAttribute("aria-selected", p.id === wanted.id);
  }
  drawPane(wanted);
  if (narrow) drawPane(panes[0]);
  if (location.protocol !== "about:") history.replaceState(null, "", "#" + wanted.id); // a frame of a notebook has no address
  reveal(byId("pane-" + wanted.id));
}
function drawPane(p) {
  if (state.drawn.has(p.id)) return;
  state.drawn.add(p.id);
  const pane = byId("pane-" + p.id);
  pane.replaceChildren();
  p.draw(pane);
  paint(pane);
}
// Draws the panes again, for another program or theme; or some of them, if they are seen.
function redraw(some) {
  if (some) {
    for (const p of panes.filter((q) => some.includes(q.id))) {
      state.drawn.delete(p.id);
      if (byId("pane-" + p.id).offsetParent !== null) drawPane(p);
    }
    return;
  }
  state.drawn.clear();
  drawPane(panes[0]);
  show(state.pane || "graph");
}

// A drawing that is dragged and zoomed: `apply` is called with the view {x, y, scale} after each change.
function movable(box, view, apply) {
  let from = null;
  const zoom = (factor, cx, cy) => {
    const scale = Math.min(Math.max(view.scale * factor, view.min || 0.02), view.max || 8);
    view.x = cx - (cx - view.x) * scale / view.scale;
    view.y = cy - (cy - view.y) * scale / view.scale;
    view.scale = scale;
    apply();
  };
  box.addEventListener("wheel", (e) => {
    e.preventDefault();
    const r = box.getBoundingClientRect();
    zoom(Math.exp(-e.deltaY * 0.0015), e.clientX - r.left, e.clientY - r.top);
  }, {passive: false});
  const pointers = new Map();
  box.addEventListener("pointerdown", (e) => {
    pointers.set(e.pointerId, e);
    from = {x: e.clientX - view.x, y: e.clientY - view.y, moved: false};
  });
  box.addEventListener("pointermove", (e) => {
    if (!pointers.has(e.pointerId)) return;
    const before = [...pointers.values()];
    pointers.set(e.pointerId, e);
    const now = [...pointers.values()];
    if (now.length === 2) { // pinch
      const span = (p) => Math.hypot(p[0].clientX - p[1].clientX, p[0].clientY - p[1].clientY);
      const r = box.getBoundingClientRect();
      zoom(span(now) / Math.max(span(before), 1), (now[0].clientX + now[1].clientX) / 2 - r.left, (now[0].clientY + now[1].clientY) / 2 - r.top);
      return;
    }
    if (!from.moved && Math.hypot(e.clientX - from.x - view.x, e.clientY - from.y - view.y) < 4) return;
    if (!from.moved) box.setPointerCapture(e.pointerId);
    from.moved = true;
    document.body.dataset.dragged = "1"; // the click that ends a drag selects nothing
    view.x = e.clientX - from.x, view.y = e.clientY - from.y;
    apply();
  });
  const end = (e) => {
    pointers.delete(e.pointerId);
    setTimeout(() => delete document.body.dataset.dragged, 0);
  };
  box.addEventListener("pointerup", end);
  box.addEventListener("pointercancel", end);
  return zoom;
}
