// The shards of a tensor to scale, the mesh, and what a device holds.
const tensorsPane = {id: "tensors", title: "Tensors", value: -1, device: -1};
panes.push(tensorsPane);

tensorsPane.draw = (pane) => {
  const p = state.program;
  const usable = p.values.map((v, i) => [v, i]).filter(([v]) => v && v.sharding && v.sizes.every((d) => typeof d === "number"));
  if (!p.mesh || !usable.length) { pane.append(missing("shards")); return; }
  if (!usable.some(([, i]) => i === tensorsPane.value)) {
    // One that says much: with borders for neighbors, else a named matrix that an op computes.
    const sharded = usable.filter(([v]) => v.sharding.dims.some((d) => d.length)), rank2 = sharded.filter(([v]) => v.sizes.length > 1 && v.op !== "constant" && !v.unused);
    tensorsPane.value = (rank2.slice(0, 50).find(([v]) => halosOf(v, v.sharding).size) || rank2.find(([v]) => v.op !== "argument" && !/^%\d+$/.test(v.name)) || rank2.find(([v]) => v.op !== "argument") || rank2[0] || sharded[0] || usable[0])[1];
  }
  const choose = el("select", {"aria-label": "tensor", style: "max-width:100%", on: {change: (e) => select("v" + e.target.value)}},
    usable.map(([v, i]) => el("option", {value: i, selected: i === tensorsPane.value}, short(v.name, 40) + " " + v.type + " " + v.sharding.text.replace(/^@\w*/, ""))));
  const shards = el("div"), mesh = el("div"), device = el("div");
  tensorsPane.parts = {choose, shards, mesh, device};
  const unknown = p.values.filter((v) => v && v.sharding).length - usable.length;
  pane.append(el("div", {class: "bar"}, choose), unknown ? el("p", {class: "note"}, plural(unknown, "value") + " of sizes that are not known before a run " + (unknown === 1 ? "is" : "are") + " not listed.") : "", shards, el("h2", {}, "Mesh ", p.mesh.name, ": ", plural(p.mesh.devices, "device")), mesh, device);
  drawShards();
  drawMesh(mesh);
  drawDevice();
};
tensorsPane.reveal = (key) => {
  if (!tensorsPane.parts) return;
  const id = Number(key.slice(1)), p = state.program;
  if (key[0] === "d") { tensorsPane.device = id; drawDevice(); return; }
  let v = key[0] === "v" ? id : -1;
  if (key[0] === "l") v = ((p.lineAt.get(id) || {}).values || [])[0] ?? -1;
  if (v < 0 || !p.values[v] || !p.values[v].sharding || !p.values[v].sizes.every((d) => typeof d === "number")) return;
  tensorsPane.value = v;
  tensorsPane.parts.choose.value = v;
  drawShards();
};

// The mesh axis of a part, with the index along it that a device has: shards are numbered major to minor.
function partSize(part) {
  if (part.blocks) return part.blocks;
  if (typeof part !== "string") return part.size;
  return state.program.mesh.axes.find((a) => a.name === part).size;
}
function indexAlong(part, device) { // of a device, along an axis or a sub-axis
  let post = 1;
  const axes = state.program.mesh.axes;
  for (let i = axes.length - 1; i >= 0 && axes[i].name !== axisName(part); --i) post *= axes[i].size;
  const axis = axes.find((a) => a.name === axisName(part)), at = Math.floor(device / post) % axis.size;
  return typeof part === "string" ? at : Math.floor(at / (axis.size / (part.pre * part.size))) % part.size;
}
const shardCount = (parts) => parts.reduce((n, part) => n * partSize(part), 1);
// "4", or "3 or 4" where the shards of a dim differ.
const shardSize = (n, count) => n % count ? `${Math.floor(n / count)} or ${Math.ceil(n / count)}` : n / count;
// Where the shards of a drawn list begin, and the end: to scale, unless some are left out or too small for text.
function shardEdges(list, size, count, extent, least) {
  const even = list.map((_, i) => i * extent / list.length).concat(extent);
  if (list.includes(-1) || !size) return even;
  const scaled = list.map((i) => shardRange(size, count, i)[0] / size * extent).concat(extent);
  return scaled.some((x, i) => i && x - scaled[i - 1] < least - 0.5) ? even : scaled;
}
const shardRange = (size, count, i) => [Math.floor(i * size / count), Math.floor((i + 1) * size / count)];
// The devices that have a value, where those of a pipeline's stages run different functions; null: all, or not stated.
function placesOf(v) {
  const p = state.program;
  if (!v.programs || !v.programs.length) return null;
  v.places ??= new Set(v.programs.flatMap((i) => p.schedules[i] ? p.schedules[i].places : []));
  return v.places.size && v.places.size < p.mesh.devices ? v.places : null;
}
// Their indices along an axis, in order; "1", "0–1", "0, 2".
const indicesAlong = (name, places) => [...new Set([...places].map((d) => indexAlong(name, d)))].sort((a, b) => a - b);
const listText = (list) => list.length > 1 && list[list.length - 1] - list[0] + 1 === list.length ? list[0] + "–" + list[list.length - 1] : list.join(",");
function placesText(places) {
  return state.program.mesh.axes.map((a) => [a, indicesAlong(a.name, places)]).filter(([a, list]) => list.length < a.size).map(([a, list]) => a.name + "=" + listText(list)).join(", ");
}
// The coordinates that hold a shard: an index, * for any, + for each with a partial value.
function holders(sharding, index, places) {
  const fixed = new Map();
  sharding.dims.forEach((parts, d) => {
    let rest = index[d];
    for (let i = parts.length - 1; i >= 0; --i) {
      const size = partSize(parts[i]);
      if (!parts[i].blocks) {
        const name = axisName(parts[i]);
        fixed.set(name, (fixed.get(name) || []).concat([[parts[i], rest % size]]));
      }
      rest = Math.floor(rest / size);
    }
  });
  const pending = new Set((sharding.pending || []).map((a) => axisName(a.axis)));
  return state.program.mesh.axes.map((a) => {
    const own = fixed.get(a.name);
    if (pending.has(a.name)) return a.name + "=+";
    if (!own && places && indicesAlong(a.name, places).length < a.size) return a.name + "=" + listText(indicesAlong(a.name, places));
    if (!own) return a.size > 1 ? a.name + "=*" : a.name + "=0";
    if (own.length === 1 && typeof own[0][0] === "string") return a.name + "=" + own[0][1];
    return a.name + "∋" + own.map(([part, i]) => i).join("/");
  });
}
// The devices of a shard, at most `limit`.
function devicesOf(sharding, index, limit, places) {
  const out = [];
  for (let d = 0; d < state.program.mesh.devices && out.length < limit; ++d)
    if ((!places || places.has(d)) && holds(sharding, index, d)) out.push(d);
  return out;
}
function holds(sharding, index, device) {
  return sharding.dims.every((parts, d) => {
    const free = parts.some((part) => part.blocks);
    if (free) return true; // strided: a device has several ranges
    return positionOf(parts, device) === index[d];
  });
}

// The segments of a dim that are drawn: all, or the first ones and the last.
function segments(count, most) {
  const list = [];
  for (let i = 0; i < Math.min(count, most); ++i) list.push(i);
  if (count > most) list.splice(most - 1, 1, -1, count - 1);
  return list;
}
function drawShards() {
  const p = state.program, v = p.values[tensorsPane.value], s = v.sharding, into = tensorsPane.parts.shards;
  const counts = s.dims.map(shardCount), total = counts.reduce((a, b) => a * b, 1);
  const pending = (s.pending || []).map((a) => axisName(a.axis));
  const places = placesOf(v), copies = (places ? places.size : p.mesh.devices) / total / (s.pending || []).reduce((n, a) => n * partSize(a.axis), 1);
  const facts = [total === 1 ? places ? "not sharded: each of its devices holds all of it" : "not sharded: every device holds all of it" : plural(total, "shard") + " (" + counts.join(" × ") + ") of " + v.sizes.map((n, d) => shardSize(n, counts[d])).join(" × ")];
  if (v.nominal_dims) facts.push("drawn for " + nominalText(p));
  if (places) facts.unshift(`only devices with ${placesText(places)} ${v.op === "argument" ? "hold" : "compute"} it`);
  if (v.device_bytes !== undefined) facts.push((v.sizes.some((n, d) => n % counts[d]) ? "at most " : "") + bytesText(v.device_bytes) + (places ? " on each of them, of " : " on each device, of ") + bytesText(v.bytes));
  if (total > 1) facts.push(copies > 1 ? "each shard is held by " + plural(Math.round(copies), "device") : "each shard is held once");
  if (pending.length) facts.push(`hatched: partial values, to be reduced (${s.pending[0].kind}) over ` + pending.join(", "));
  into.replaceChildren(el("h2", {}, v.name + ": " + v.type + " ", shardingText(s)), el("p", {class: "note"}, facts.join("; ") + "."));
  const width = Math.max(Math.min((into.parentNode.clientWidth || 640) - 30, 760), 240);
  into.append(el("div", {class: "wide"}, shardDrawing(v, s, width)));
  if (v.before) into.append(el("p", {class: "note", style: "margin-top:10px"}, "Its op computes it as ", shardingText(v.before), (v.before.pending ? ": partial values (hatched), which a collective reduces." : "; it is then resharded.")),
    el("div", {class: "wide"}, shardDrawing(v, v.before, width)));
  const axesOf = s.dims.map((parts, d) => parts.length ? `dim ${d} along ${parts.map((x) => x.blocks ? x.blocks + " blocks" : axisName(x)).join(", then ")}` : "").filter(Boolean);
  const halos = [...halosOf(v, s)];
  if (halos.length) into.append(el("div", {class: "legend"}, halos.map(([d, h]) => el("span", {}, el("span", {style: `background:${axisColor(h.axis)};opacity:.4;padding:0 6px;margin-right:4px`}), `border that the neighbor along ${h.axis} receives (halo of dim ${d}): ${bytesText(h.bytes)} for ${h.reader}`))));
  into.append(el("div", {class: "legend"}, axesOf.length ? el("span", {}, "sharded: " + axesOf.join("; ")) : "", el("span", {}, "in a cell: the devices that hold it, by mesh axis; * any, + each with a partial value")));
  paint(into);
}
// The borders of a value's shards that neighbors receive for ops such as convolutions: by dim, and what share of a shard.
// A message that moves whole shards, as in a ring, is not one.
function halosOf(v, s) {
  const p = state.program, halos = new Map(), id = p.values.indexOf(v);
  for (const drawing of p.graph ? p.graph.drawings : [])
    for (const e of drawing.edges) {
      if (e.value !== id || drawing.nodes[e.to].kind === "cluster") continue; // a layer has messages of its own
      for (const c of (drawing.nodes[e.to].collectives || []).map((i) => p.collectives[i])) {
        const d = s.dims.findIndex((parts) => parts.some((part) => !part.blocks && axisName(part) === c.axes[0]));
        if (c.kind !== "p2p" || d < 0 || !(c.bytes_received < v.device_bytes)) continue;
        const sides = shardCount(s.dims[d]) > 2 ? 2 : 1, share = c.bytes_received / v.device_bytes / sides;
        if (share > (halos.get(d)?.share || 0)) halos.set(d, {share, axis: c.axes[0], bytes: c.bytes_received, reader: drawing.nodes[e.to].text[0]});
      }
    }
  return halos;
}
// A matrix of matrices: the last dim goes across, the one before it down, and so on in turn.
function shardDrawing(v, s, width) {
  const counts = s.dims.map(shardCount), rank = v.sizes.length, svg = draw("svg"), halos = halosOf(v, s);
  const places = placesOf(v), cellText = holders(s, counts.map(() => 0), places);
  const most = rank > 2 ? 6 : 12, gap = 16, label = 15;
  const left = rank > 1 ? Math.max(46, 10 + 6.8 * rangeText(v.sizes[rank - 2], counts[rank - 2], counts[rank - 2] - 1).length) : 46;
  const oneLine = cellText.join(" ").length * 6.8 + 12, minW = Math.max(...cellText.map((t) => t.length + 1), rank ? rangeText(v.sizes[rank - 1], counts[rank - 1], counts[rank - 1] - 1).length + 1 : 0) * 6.8 + 4;
  const columns = rank ? segments(counts[rank - 1], Math.max(2, Math.min(most, Math.floor((width - 70) / minW)))) : [0];
  const rows = rank > 1 ? segments(counts[rank - 2], most) : [0];
  // To scale where the shape is not too narrow for text.
  const height = rank > 1 ? v.sizes[rank - 2] : 1, across = rank ? v.sizes[rank - 1] : 1;
  // Matrices beside each other go on in a further row.
  const fit = Math.max(1, Math.floor((width + gap) / (minW * columns.length + left + gap)));
  const outerMost = (d) => d === rank - 3 ? 12 : 6;
  const outer = [];
  for (let d = 0; d < rank - 2; ++d) outer.push(segments(counts[d], outerMost(d)));
  const blocksAcross = outer.reduce((n, list, d) => (rank - d) % 2 === 1 ? n * Math.min(list.length, d === rank - 3 ? fit : list.length) : n, 1);
  const room = Math.max(width / blocksAcross - gap - left, minW * columns.length);
  const scale = Math.min(room / across, 260 / height);
  let w = Math.max(across * scale, minW * columns.length);
  w = Math.min(w, Math.max(room, minW * columns.length));
  const flat = w / columns.length >= oneLine, minH = flat ? 20 : cellText.length * 13 + 8;
  const h = Math.max(rank > 1 ? height * scale : 30, minH * rows.length);
  const xs = shardEdges(columns, across, rank ? counts[rank - 1] : 1, w, minW), ys = shardEdges(rows, height, rank > 1 ? counts[rank - 2] : 1, h, minH);
  const exact = rank < 2 || Math.abs(w / h - across / height) / (across / height) < 0.02;
  const matrix = (x, y, at) => {
    let top = y;
    if (rank) {
      columns.forEach((c, i) => svg.append(draw("text", {class: "dim", x: x + left + xs[i] + 2, y: y + 10}, c < 0 ? "…" : rangeText(v.sizes[rank - 1], counts[rank - 1], c))));
      top += label;
    }
    rows.forEach((r, j) => {
      if (rank > 1) svg.append(draw("text", {class: "dim", x: x + left - 4, y: top + ys[j] + 12, "text-anchor": "end"}, r < 0 ? "…" : rangeText(v.sizes[rank - 2], counts[rank - 2], r)));
      columns.forEach((c, i) => {
        if (r < 0 || c < 0) return;
        const index = [...at, ...(rank > 1 ? [r] : []), ...(rank ? [c] : [])];
        cell(x + left + xs[i], top + ys[j], xs[i + 1] - xs[i], ys[j + 1] - ys[j], index);
      });
    });
    return [w + left, h + (rank ? label : 0)];
  };
  const cell = (x, y, cw, ch, index) => {
    const number = index.reduce((n, i, d) => n * counts[d] + i, 0), names = holders(s, index, places);
    const total = counts.reduce((n, c) => n * c, 1), color = shardColor(number, total);
    const devices = devicesOf(s, index, 64, places);
    const g = draw("g", {class: "cell", "data-k": keys(devices.map((d) => "d" + d))}, draw("rect", {class: "shape", x, y, width: cw, height: ch, style: `fill:${color}`}));
    if (s.pending) g.append(draw("rect", {x, y, width: cw, height: ch, style: "fill:url(#hatch);pointer-events:none"}));
    for (const [d, {share, axis}] of halos) {
      const band = (from, to) => g.append(draw("rect", {...(d === rank - 1 ? {x: x + from, y, width: to - from, height: ch} : {x, y: y + from, width: cw, height: to - from}), style: `fill:${axisColor(axis)};opacity:.4;pointer-events:none`}));
      const size = d === rank - 1 ? cw : d === rank - 2 ? ch : 0, wide = Math.max(size * Math.min(share, 1), 2);
      if (size && index[d] > 0) band(0, wide);
      if (size && index[d] < counts[d] - 1) band(size - wide, size);
    }
    (flat ? [names.join(" ")] : names).forEach((t, i) => g.append(draw("text", {x: x + 5, y: y + 14 + i * 13}, t)));
    g.append(draw("title", {}, `shard ${number}: [` + index.map((i, d) => rangeText(v.sizes[d], counts[d], i)).join(", ") + "]\n" + (devices.length < 64 ? devices.map(deviceName).join("\n") : "64 devices and more")));
    svg.append(g);
  };
  const blocks = (d, x, y, at) => {
    if (rank - d <= 2) return matrix(x, y, at);
    if (counts[d] === 1) return blocks(d + 1, x, y, [...at, 0]);
    const sideways = (rank - d) % 2 === 1;
    let along = 0, far = 0, above = 0, widest = 0;
    for (const i of segments(counts[d], outerMost(d))) {
      const bx = sideways ? x + along : x, by = sideways ? y + above : y + along;
      svg.append(draw("text", {class: "dim", x: bx + left, y: by + 10, style: "font-weight:600"}, i < 0 ? "…" : `dim ${d}: ${rangeText(v.sizes[d], counts[d], i)}`));
      const size = i < 0 ? [60, 20] : blocks(d + 1, bx, by + label, [...at, i]);
      size[0] = Math.max(size[0], left + 7 * (i < 0 ? 1 : `dim ${d}: ${rangeText(v.sizes[d], counts[d], i)}`.length));
      along += (sideways ? size[0] : size[1] + label) + gap;
      far = Math.max(far, sideways ? above + size[1] + label : size[0]);
      widest = Math.max(widest, along);
      if (sideways && d === rank - 3 && along + size[0] > width) along = 0, above = far + gap;
    }
    return sideways ? [widest - gap, far] : [far, along - gap];
  };
  svg.append(draw("defs", {}, draw("pattern", {id: "hatch", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)"}, draw("line", {x1: 0, y1: 0, x2: 0, y2: 7, style: "stroke:var(--text);stroke-width:1.5;opacity:.45"}))));
  const size = blocks(0, 0, 0, []);
  if (!exact) svg.append(draw("text", {class: "dim", x: left, y: size[1] + 14}, `not to scale: ${height} × ${across}`));
  const below = exact ? 0 : left + 6.8 * `not to scale: ${height} × ${across}`.length;
  svg.setAttribute("width", Math.ceil(Math.max(size[0], below) + 4));
  svg.setAttribute("height", Math.ceil(size[1] + (exact ? 4 : 20)));
  return svg;
}
function rangeText(size, count, i) {
  const [from, to] = shardRange(size, count, i);
  return to <= from ? "none" : to - from === 1 ? String(from) : from + "–" + (to - 1);
}

// The devices: the last axis across, the one before it down, and so on.
function drawMesh(into) {
  const p = state.program, axes = p.mesh.axes.filter((a) => a.size > 1), rank = axes.length, svg = draw("svg");
  const cw = Math.max(38, String(p.mesh.devices).length * 7 + 16), ch = 24, most = rank > 2 ? 8 : 16;
  const color = (a) => axisColor(a.name);
  const deviceAt = (index) => axes.reduce((d, a, i) => d + index[i] * p.strides.get(a.name), 0);
  const head = (a, i) => i < 0 ? "…" : `${a.name}=${i}`;
  const matrix = (x, y, at) => {
    const down = rank > 1 ? axes[rank - 2] : null, across = rank ? axes[rank - 1] : null;
    const columns = across ? segments(across.size, most) : [0], rows = down ? segments(down.size, most) : [0];
    const left = down ? 8 + 7 * head(down, down.size - 1).length : 0, wide = across ? Math.max(cw, head(across, across.size - 1).length * 7 + 6) : cw;
    columns.forEach((c, i) => across && svg.append(draw("text", {x: x + left + i * wide + 2, y: y + 11, style: `fill:${color(across)}`, "data-k": keys("a" + p.axes.indexOf(across.name))}, head(across, c))));
    rows.forEach((r, j) => {
      if (down) svg.append(draw("text", {x: x + left - 5, y: y + 32 + j * ch, "text-anchor": "end", style: `fill:${color(down)}`, "data-k": keys("a" + p.axes.indexOf(down.name))}, head(down, r)));
      columns.forEach((c, i) => {
        if (r < 0 || c < 0) return;
        const d = deviceAt([...at, ...(down ? [r] : []), ...(across ? [c] : [])]), shown = p.mesh.order ? p.mesh.order[d] : d;
        svg.append(draw("g", {"data-k": keys("d" + d, stageAxes().map((a) => "p" + indexAlong(a, d))), tabindex: 0, role: "button"}, draw("title", {}, deviceName(d)), draw("rect", {class: "shape", x: x + left + i * wide, y: y + 16 + j * ch, width: wide - 4, height: ch - 4, rx: 3}),
          draw("text", {x: x + left + i * wide + (wide - 4) / 2, y: y + 30 + j * ch, "text-anchor": "middle"}, shown)));
      });
    });
    return [left + columns.length * wide, 16 + rows.length * ch];
  };
  const blocks = (d, x, y, at) => {
    if (rank - d <= 2) return matrix(x, y, at);
    const sideways = (rank - d) % 2 === 1;
    let along = 0, far = 0;
    for (const i of segments(axes[d].size, 4)) {
      const bx = sideways ? x + along : x, by = sideways ? y : y + along;
      svg.append(draw("text", {x: bx, y: by + 11, style: `font-weight:600;fill:${color(axes[d])}`}, head(axes[d], i)));
      const size = i < 0 ? [24, 16] : blocks(d + 1, bx, by + 15, [...at, i]);
      along += (sideways ? size[0] : size[1] + 15) + 14;
      far = Math.max(far, sideways ? size[1] + 15 : size[0]);
    }
    return sideways ? [along, far] : [far, along];
  };
  const size = blocks(0, 0, 0, []);
  svg.setAttribute("width", Math.ceil(size[0]));
  svg.setAttribute("height", Math.ceil(size[1]));
  into.append(el("p", {class: "note"}, p.mesh.axes.map((a) => a.name + "=" + a.size).join(", ") + ". Select a device to see what it holds."), el("div", {class: "wide"}, svg));
}
// What the device holds of a value: shards may differ in size.
const positionOf = (parts, device) => parts.reduce((n, part) => n * partSize(part) + indexAlong(part, device), 0);
function bytesOn(v, device) {
  const elements = v.sizes.reduce((n, size) => n * size, 1);
  if (!elements || v.sharding.dims.some((parts) => parts.some((part) => part.blocks))) return v.device_bytes || 0;
  return v.sharding.dims.reduce((bytes, parts, dim) => {
    const [from, to] = shardRange(v.sizes[dim], shardCount(parts), positionOf(parts, device));
    return Math.round(bytes / v.sizes[dim] * (to - from));
  }, v.bytes);
}
function drawDevice() {
  const p = state.program, d = tensorsPane.device, into = tensorsPane.parts.device;
  into.replaceChildren();
  if (d < 0) return;
  const rows = p.values.map((v, i) => [v, i]).filter(([v]) => v && v.op === "argument" && v.sharding && v.sizes.every((n) => typeof n === "number") && (!placesOf(v) || placesOf(v).has(d)));
  const shown = rows.slice(0, 60);
  const range = (v) => v.sharding.dims.map((parts, dim) => {
    if (parts.some((x) => x.blocks)) return "strided";
    return rangeText(v.sizes[dim], shardCount(parts), positionOf(parts, d));
  }).join(", ");
  into.append(el("h2", {}, "Device " + (p.mesh.order ? p.mesh.order[d] : d) + " (" + deviceName(d) + ") holds"), el("div", {class: "wide"}, el("table", {}, el("tr", {}, ["argument", "type", "elements"].map((t) => el("th", {}, t)), el("th", {class: "r"}, "bytes")),
    shown.map(([v, i]) => el("tr", {"data-k": "v" + i}, el("td", {class: "mono"}, v.name), el("td", {class: "mono"}, v.type), el("td", {class: "mono"}, "[" + range(v) + "]"), el("td", {class: "r"}, bytesText(bytesOn(v, d))))))),
    rows.length > 60 ? el("p", {class: "note"}, `and ${rows.length - 60} more arguments`) : "",
    p.source.folded ? el("p", {class: "note"}, "Of equal layers, the arguments of the first one are listed.") : "");
  paint(into);
}
