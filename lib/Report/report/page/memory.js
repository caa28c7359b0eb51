// The memory of a device: bytes over the steps, the buffers in the arena, and what is alive at the peak.
const memoryPane = {id: "memory", title: "Memory"};
panes.push(memoryPane);

memoryPane.draw = (pane) => {
  const p = state.program, m = p.memory;
  if (!m) { pane.append(missing("memory plan")); return; }
  const peak = p.steps[m.peak_step], alive = p.buffers.map((b, i) => [b, i]).filter(([b]) => b.at_peak).sort((a, b) => b[0].bytes - a[0].bytes);
  const sum = (what) => alive.filter(([b]) => b.what === what).reduce((t, [b]) => t + b.bytes, 0);
  const choice = functionChoice();
  pane.append(choice ? el("div", {class: "bar"}, choice) : "", el("h2", {}, "Memory of ", p.schedule.devices ? "devices " + p.schedule.devices.join(", ") : "each device"), el("p", {class: "note"}, `The arena has ${bytesText(m.arena_bytes)}; at least ${bytesText(m.least_bytes)} are needed in this order of steps. The peak is `,
    peak ? [linkTo("s" + m.peak_step, `step ${m.peak_step} (${stepName(peak)})`), ": "] : ": ", [["argument", "arguments"], ["result", "results"], ["constant", "constants"], ["value", "values between steps"]].map(([w, t]) => sum(w) ? t + " " + bytesText(sum(w)) : "").filter(Boolean).join(", ") + "."));
  const width = Math.max(pane.clientWidth - 26, 280);
  pane.append(...zoomed("memory", (scale) => arenaDrawing(m, width * scale, scale)), el("div", {class: "legend"}, Object.entries(bufferColors).map(([what, color]) => legendItem(el("span", {style: `background:${tint(color, 45)};border:1px solid ${color};padding:0 7px;margin-right:5px`}), what)),
    el("span", {}, "above: bytes in use; below: the arena, from offset 0 up; from left to right: steps in order")));
  if (m.left_out.buffers) pane.append(el("p", {class: "note"}, `${plural(m.left_out.buffers, "buffer")} of less than 1/5000 of the arena are not listed.`));
  const most = 200;
  pane.append(el("h2", {}, "Alive at the peak"), el("div", {class: "wide"}, el("table", {class: "named", style: "--columns: 4"}, el("tr", {}, el("th", {}, "value"), el("th", {}, "what"), el("th", {class: "r"}, "bytes"), el("th", {}, "live in steps"), el("th", {}, "line")),
    alive.slice(0, most).map(([b, i]) => el("tr", {"data-k": bufferKeys(b, i)}, el("td", {class: "mono"}, breakable(b.value)), el("td", {}, b.what), el("td", {class: "r"}, bytesText(b.bytes)), el("td", {class: "whole"}, b.first_step + "–" + b.last_step), el("td", {class: "whole"}, lineLink(b.line)))))),
    alive.length > most ? el("p", {class: "note"}, `and ${alive.length - most} smaller ones`) : "");
};
const bufferKeys = (b, i) => keys("b" + i, "m" + b.line, b.kernels.map((k) => "u" + k));
const bufferColors = {argument: palette[0], result: palette[2], constant: palette[7], value: palette[4]};

function arenaDrawing(m, width, scale = 1) {
  const p = state.program, left = 66, room = width - left - 12, high = 90, tall = 280 * Math.sqrt(scale), top2 = high + 48;
  const n = Math.max(p.steps.length, 1), x = (s) => left + s / n * room, most = Math.max(m.arena_bytes, 1);
  const svg = draw("svg", {width, height: top2 + tall + 28}), top = 22; // below the word "peak"
  for (const t of byteTicks(most, 3)) if (t <= most) svg.append(draw("line", {class: "grid", x1: left, x2: left + room, y1: top + high - t / most * high, y2: top + high - t / most * high}), draw("text", {class: "dim", x: left - 4, y: top + 4 + high - t / most * high, "text-anchor": "end"}, bytesText(t)));
  let d = `M${left} ${top + high}`, i = 0;
  const every = Math.max(1, Math.floor(n / 3000));
  for (; i < p.steps.length; i += every) {
    let live = 0;
    for (let j = i; j < Math.min(i + every, p.steps.length); ++j) live = Math.max(live, p.steps[j].live_bytes);
    const y = (top + high - live / most * high).toFixed(1);
    d += `L${x(i).toFixed(1)} ${y}L${x(Math.min(i + every, n)).toFixed(1)} ${y}`;
  }
  svg.append(draw("path", {d: d + `L${left + room} ${top + high}Z`, style: `fill:${tint(palette[4], 35)};stroke:${palette[4]}`}));
  const peak = x(m.peak_step + 0.5);
  svg.append(draw("line", {x1: peak, x2: peak, y1: top - 6, y2: top2 + tall, style: "stroke:var(--bad);stroke-dasharray:4 3"}), draw("text", {x: Math.min(Math.max(peak, left + 14), width - 26), y: top - 10, "text-anchor": "middle", style: "fill:var(--bad)"}, "peak"));
  svg.append(draw("rect", {x: left, y: top2, width: room, height: tall, style: "fill:none;stroke:var(--line)"}));
  const y = (offset) => top2 + tall - offset / most * tall;
  for (const t of byteTicks(most, 4)) if (t <= most) svg.append(draw("text", {class: "dim", x: left - 4, y: y(t) + 4, "text-anchor": "end"}, bytesText(t)), draw("line", {class: "grid", x1: left - 3, x2: left, y1: y(t), y2: y(t)}));
  p.buffers.forEach((b, id) => {
    const x0 = x(b.first_step), w = Math.max(x(b.last_step + 1) - x0, 0.6), h = Math.max(b.bytes / most * tall, 0.5), color = bufferColors[b.what];
    if (w * h < 0.6 && n > 2000) return;
    const g = draw("g", {"data-k": bufferKeys(b, id)}, draw("rect", {class: "shape", x: x0, y: y(b.offset + b.bytes), width: w, height: h, style: `fill:${tint(color, 45)};stroke:${color};stroke-width:${h < 3 || w < 3 ? 0.3 : 1}`}), draw("title", {}, `${b.value} (${b.what})\n${bytesText(b.bytes)} at ${bytesText(b.offset)}\nsteps ${b.first_step} to ${b.last_step}`));
    if (h > 13 && w > 30) g.append(draw("text", {x: x0 + 3, y: y(b.offset + b.bytes) + Math.min(h / 2 + 3, 14), style: "pointer-events:none"}, short(b.value, Math.floor((w - 6) / 6.7))));
    svg.append(g);
  });
  for (const t of ticks(n, Math.max(2, Math.floor(room / 80)))) if (Number.isInteger(t) && t < n) svg.append(draw("text", {class: "dim", x: x(t + 0.5), y: top2 + tall + 20, "text-anchor": x(t + 0.5) > width - 40 ? "end" : "middle"}, "step " + t));
  return svg;
}
