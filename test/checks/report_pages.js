// Runs in a page of `dtc report` (test/checks/report_pages.py): drives it as a reader does, and writes what is wrong.
(() => {
  const wrong = [], counts = {}, {state, select, show, panes} = window.dtcReport;
  const say = (where, what) => { if (wrong.length < 40) wrong.push(where + ": " + what); };
  const area = (a, b) => Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left)) * Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));
  const shown = (r) => r.width > 0 && r.height > 0;

  // Nothing is wider than the page, texts of a drawing are within it and apart.
  function layout(where, pane) {
    if (document.documentElement.scrollWidth > innerWidth) say(where, `the page is ${document.documentElement.scrollWidth} px wide, the window ${innerWidth}`);
    if (pane.scrollWidth > pane.clientWidth + 1) say(where, `the pane has ${pane.scrollWidth} px, of which ${pane.clientWidth} are seen`);
    for (const svg of pane.querySelectorAll("svg")) {
      if (svg.closest(".graph")) continue;
      const frame = svg.getBoundingClientRect();
      const texts = [...svg.querySelectorAll("text")].map((t) => [t, t.getBoundingClientRect()]).filter(([, r]) => shown(r)).slice(0, 500);
      for (const [t, r] of texts)
        if (r.left < frame.left - 1 || r.right > frame.right + 1 || r.bottom > frame.bottom + 1 || r.top < frame.top - 1)
          if (!t.closest("[clip-path]")) say(where, `'${t.textContent}' is cut off`);
      texts.forEach(([t, r], i) => texts.slice(i + 1).forEach(([u, q]) => { if (area(r, q) > 12) say(where, `'${t.textContent}' and '${u.textContent}' overlap`); }));
    }
    for (const cell of pane.querySelectorAll("td, .fact, .chip, button, .note, h2")) {
      const r = cell.getBoundingClientRect();
      if (shown(r) && r.right > innerWidth + 1 && !cell.closest(".wide, .draw")) say(where, `'${cell.textContent.slice(0, 40)}' is cut off`);
    }
  }
  // What a cell says, apart from its padding.
  const inkOf = (cell) => { const range = document.createRange(); range.selectNodeContents(cell); return range.getBoundingClientRect(); };
  // Cells of a row are apart, and a name breaks after a separator only, if it fits a line.
  function tables(where, pane) {
    for (const row of pane.querySelectorAll("tr")) {
      const cells = [...row.cells].map((c) => [c, inkOf(c)]).filter(([, r]) => shown(r)).slice(0, 12);
      cells.slice(1).forEach(([c, r], i) => {
        const [before, q] = cells[i];
        if (r.top < q.bottom - 1 && q.top < r.bottom - 1 && r.left - q.right < 6) say(where, `'${before.textContent}' and '${c.textContent}' are ${Math.round(r.left - q.right)} px apart`);
      });
    }
    for (const name of [...pane.querySelectorAll("td.mono, .mono.name")].slice(0, 80)) {
      const walk = document.createTreeWalker(name, NodeFilter.SHOW_TEXT);
      for (let text = walk.nextNode(); text; text = walk.nextNode()) {
        const word = document.createRange();
        word.selectNodeContents(text);
        if (/^[\w%]+$/.test(text.data) && word.getClientRects().length > 1) say(where, `'${text.data}' of '${name.textContent}' is broken`);
      }
    }
  }
  function nodes(where, box) {
    const all = [...box.querySelectorAll("g.node:not(.open)")].map((n) => [n, n.querySelector(".shape").getBoundingClientRect()]);
    all.forEach(([n, r], i) => {
      all.slice(i + 1).forEach(([m, q]) => { if (area(r, q) > 4) say(where, `nodes '${n.textContent}' and '${m.textContent}' overlap`); });
      for (const t of n.querySelectorAll("text")) if (t.getBoundingClientRect().right > r.right + 1) say(where, `'${t.textContent}' is wider than its node`);
    });
    return all.length;
  }
  // Each end of an edge is on the border of its box, whatever is unfolded.
  function edges(where, box) {
    for (const path of box.querySelectorAll("path.edge")) {
      const at = path.getScreenCTM(), ends = [0, path.getTotalLength()].map((l) => path.getPointAtLength(l).matrixTransform(at));
      path.dataset.ends.split(" ").forEach((n, i) => {
        const node = path.parentNode.querySelector(`:scope > g.node[data-n="${n}"]`), r = node && node.querySelector(".shape").getBoundingClientRect();
        const p = ends[i], far = !r ? Infinity : Math.max(r.left - p.x, p.x - r.right, r.top - p.y, p.y - r.bottom, Math.min(p.x - r.left, r.right - p.x, p.y - r.top, r.bottom - p.y));
        if (far > 8 * at.a) say(where, `an edge ends ${Math.round(far / at.a)} px from '${node ? node.textContent : n}'`);
      });
    }
  }
  function whole(where, box) {
    box.parentNode.querySelectorAll(".bar button").forEach((b) => { if (b.textContent === "Fit") b.click(); });
    const all = box.getBoundingClientRect();
    for (const n of box.querySelectorAll("g.node .shape")) {
      const r = n.getBoundingClientRect();
      if (r.left < all.left - 1 || r.right > all.right + 1 || r.top < all.top - 1 || r.bottom > all.bottom + 1) return say(where, "Fit does not show the whole graph");
    }
  }
  const lit = (id) => byId("pane-" + id).querySelectorAll(".lit").length;

  try {
    const p = state.program, graph = panes.find((x) => x.id === "graph");
    for (const one of panes) {
      show(one.id);
      const pane = byId("pane-" + one.id);
      if (!pane.childElementCount) say(one.id, "is empty");
      layout(one.id, pane);
      tables(one.id, pane);
    }
    if (p.memory) { // no line goes through the word "peak"
      show("memory");
      const word = [...byId("pane-memory").querySelectorAll("svg text")].find((t) => t.textContent === "peak"), r = word && word.getBoundingClientRect();
      if (!word) say("memory", "the peak is not marked");
      else if ([...word.ownerSVGElement.querySelectorAll("line")].some((l) => { const q = l.getBoundingClientRect(); return q.left < r.right && q.right > r.left && q.top < r.bottom - 3 && q.bottom > r.top + 3; })) say("memory", "a line goes through the word 'peak'");
    }
    // A line has a value once, and each value with a sharding is in the list of tensors, or in the number of those left out.
    for (const l of p.source.lines) {
      const names = (l.values || []).map((v) => p.values[v].name + (p.values[v].path ? " " + p.values[v].path : ""));
      if (new Set(names).size < names.length) say("source", `line ${l.line + 1} lists a value twice: ${names.join(", ").slice(0, 200)}`);
    }
    const sharded = p.values.filter((v) => v && v.sharding).length;
    if (p.mesh && sharded) {
      show("tensors");
      const left = /^(\d+) values? of sizes/.exec([...byId("pane-tensors").querySelectorAll(".note")].map((n) => n.textContent).find((t) => t.includes("not known before a run")) || "");
      const listed = tensorsPane.parts ? tensorsPane.parts.choose.options.length : 0;
      if (listed + (left ? Number(left[1]) : 0) !== sharded) say("tensors", `${listed} of ${sharded} values are listed`);
    }
    // All lines of a kernel can be reached, each with its executions.
    const kernel = p.kernels.findIndex((k) => k.lines.length > 8);
    p.kernels.forEach((k) => { if (k.lines.length !== k.line_uses.length || k.line_uses.some((n) => n < 1 || n > k.uses)) say("kernels", `the uses of lines of ${k.name}: ${k.line_uses} of ${k.uses}`); });
    if (kernel >= 0) {
      show("kernels"), select("k" + kernel);
      const more = kernelsPane.source.querySelector("[data-toggle]");
      if (more) more.click();
      const links = kernelsPane.source.querySelectorAll("[data-k^=l]").length;
      if (links !== p.kernels[kernel].lines.length) say("kernels", `${links} of ${p.kernels[kernel].lines.length} lines are links`);
      select("");
    }
    if (p.graph) {
      show("graph");
      const before = nodes("graph", graph.box), clusters = p.graph.drawings.flatMap((d) => d.nodes).filter((n) => n.kind === "cluster").map((n) => [n, n.drawing]),
        tops = p.graph.drawings[0].nodes.filter((n) => n.kind === "cluster").map((n) => [n, n.drawing]);
      counts.nodes = before, counts.clusters = clusters.length;
      edges("graph", graph.box), whole("graph", graph.box);
      let random = 7; // unfolded and folded at random
      for (let step = 0; clusters.length && step < 8; ++step) {
        random = (random * 1103515245 + 12345) % 2147483648;
        toggleCluster(clusters[random % clusters.length][1]);
        edges("graph, unfolded " + step, graph.box);
        whole("graph, unfolded " + step, graph.box);
        nodes("graph, unfolded " + step, graph.box);
      }
      for (const [, i] of clusters) if (graph.open.has(i)) toggleCluster(i);
      for (const [, i] of tops.slice(0, 2)) {
        if (graph.open.has(i)) toggleCluster(i);
        const folded = graph.box.querySelectorAll("g.node").length;
        toggleCluster(i);
        if (graph.box.querySelectorAll("g.node").length <= folded) say("graph", "a layer does not unfold");
        nodes("graph, unfolded", graph.box);
        toggleCluster(i);
        if (graph.box.querySelectorAll("g.node").length !== folded) say("graph", "a layer does not fold again");
      }
    }
    if (p.graph) { // the key 0 shows all of it, whatever is unfolded
      show("graph");
      graph.open = new Set(p.graph.drawings.flatMap((d) => d.nodes).filter((n) => n.kind === "cluster").map((n) => n.drawing));
      render(graph.box);
      document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "0", bubbles: true}));
      const all = graph.box.getBoundingClientRect();
      if ([...graph.box.querySelectorAll("g.node .shape")].some((n) => { const r = n.getBoundingClientRect(); return r.left < all.left - 1 || r.right > all.right + 1 || r.top < all.top - 1 || r.bottom > all.bottom + 1; })) say("graph", "the key 0 does not show the whole graph");
      graph.open = new Set();
      render(graph.box);
      // A search finds boxes, also those in folded layers.
      const made = p.graph.drawings.flatMap((d) => d.nodes).findLast((n) => n.backward && n.kind === "op");
      if (made) {
        byId("search").value = made.text[0];
        byId("search").dispatchEvent(new Event("input"));
        const one = graph.box.querySelector("g.node.found"), r = one && one.getBoundingClientRect();
        if (!one || !one.textContent.includes(made.text[0]) || r.left > all.right || r.right < all.left) say("search", `the box '${made.text[0]}' is not found`);
        byId("search").value = "", byId("search").dispatchEvent(new Event("input"));
        select("");
      }
    }
    const closed = (sourcePane.groups || []).find((g) => g.toggle && !g.isOpen() && g.lines.length);
    if (closed) {
      closed.toggle(true);
      if (!closed.isOpen()) say("source", "a layer does not unfold");
      closed.toggle(false);
    }
    // A value, a collective, a kernel and a device light up in the panes that have them.
    const links = (key, where) => {
      for (const id of where) {
        show("source"), show(id);
        select(key);
        if (!lit(id)) say(id, `'${key}' does not light up`);
        if (id !== "source" && key[0] !== "d" && innerWidth > 760 && !lit("source")) say("source", `'${key}' does not light up with ${id}`);
        if (!byId("selection").textContent) say(id, "the selection is not described");
        select("");
        if (document.querySelectorAll(".lit").length) say(id, "the selection does not end");
      }
    };
    const withLine = p.steps.find((s) => s.line >= 0 && s.kernel >= 0 && p.lineAt.has(s.line) && (p.lineAt.get(s.line).values || []).length);
    if (withLine) links("v" + p.lineAt.get(withLine.line).values[0], ["source", "schedule", "kernels"].filter((id) => id !== "kernels"));
    const inGraph = p.graph && p.graph.drawings[0].nodes.find((n) => n.kind === "op" && n.values);
    if (inGraph) links("v" + inGraph.values[0], ["graph"]);
    const c = p.steps.find((s) => s.collective >= 0);
    counts.collectives = p.collectives.length;
    if (c) links("c" + c.collective, ["schedule", "communication"]);
    if (p.kernels.length) links("k0", ["kernels", "schedule"]);
    if (p.mesh && p.values.some((v) => v && v.sharding)) links("d0", ["tensors"]);
    // The devices hold each element as often as its shard is held, also where shards differ in size.
    for (const v of p.values.filter((v) => v && v.op === "argument" && v.sharding && !v.programs && v.dims.every((n) => typeof n === "number") && v.sharding.dims.every((parts) => parts.every((x) => !x.blocks)))) {
      const held = Array.from({length: p.mesh.devices}, (_, d) => bytesOn(v, d)).reduce((a, b) => a + b, 0), copies = p.mesh.devices / v.sharding.dims.reduce((n, parts) => n * shardCount(parts), 1);
      if (held !== v.bytes * copies) say("tensors", `the devices hold ${held} bytes of ${v.name}, of ${v.bytes} × ${copies}`);
    }
    // Costs of sizes that are not bound are named; the program is not wrong.
    if (p.communication && p.communication.assumed_sizes.length) {
      if (!byId("head").textContent.includes(`costs are for ${p.communication.assumed_sizes[0]} = 1024`)) say("head", "the sizes that costs assume are not named");
      if (document.querySelector(".banner[role='alert']")) say("head", "a size that is not bound is called an error");
    }
    // The measured steps of a trace, with the same links.
    if (p.schedule && p.schedule.measured) {
      show("schedule");
      [...byId("pane-schedule").querySelectorAll("button")].find((b) => b.textContent === "Measured").click();
      layout("schedule, measured", byId("pane-schedule"));
      if (!byId("pane-schedule").querySelector("h2").textContent.endsWith("measured")) say("schedule", "the trace is not shown");
      if (c) links("c" + c.collective, ["schedule"]);
      links("s0", ["schedule"]);
    }
    // An axis lights up wherever its messages are, and a box of the pipeline the devices of its row.
    const over = p.steps.find((s) => s.collective >= 0 && p.collectives[s.collective].axes.length === 1);
    const axis = over ? p.axes.indexOf(p.collectives[over.collective].axes[0]) : -1;
    if (axis >= 0) links("a" + axis, ["tensors", "schedule", "communication"]);
    if (p.schedule && p.schedule.pipeline)
      for (const id of ["schedule", "tensors"]) {
        show(id);
        select("p1");
        if (!lit(id)) say(id, "a row of the pipeline does not light up");
        select("");
      }
    // A kernel lights up its statements in the graph and its buffers, and a statement its kernels.
    const used = p.kernels.findIndex((k) => k.lines.some((l) => p.lineAt.has(l) && (p.lineAt.get(l).values || []).length));
    if (used >= 0) {
      links("k" + used, ["graph", "memory"].filter((id) => id !== "graph" || p.graph));
      show("kernels");
      select("v" + p.lineAt.get(p.kernels[used].lines.find((l) => p.lineAt.has(l) && (p.lineAt.get(l).values || []).length)).values[0]);
      if (!lit("kernels")) say("kernels", "the kernel of a statement does not light up");
      select("");
      // Only buffers that its steps read or write.
      show("memory");
      select("k" + used);
      for (const g of byId("pane-memory").querySelectorAll("g.lit")) {
        const b = p.buffers[Number(g.dataset.k.split(" ")[0].slice(1))];
        if (!b.kernels.includes(used) && !p.kernels[used].lines.includes(b.line)) say("memory", `'${b.value}' lights up with a kernel that does not use it`);
      }
      select("");
    }
    // Whatever a stage of a pipeline has shows its steps and memory.
    if (p.schedules.length > 1) {
      const values = p.values.map((v, i) => [v, i]).filter(([v]) => v && v.programs && v.programs.length === 1);
      p.schedules.forEach((s, f) => {
        const own = values.filter(([v]) => v.programs[0] === f), weight = own.find(([v]) => v.op === "argument" && v.sharding && p.memories[f].rows.some((b) => b.value === v.name)), op = own.find(([v]) => v.op !== "argument" && p.memories[f].rows.some((b) => b.line === v.line) && p.kernelsOfLine.has(v.line) && (p.functionsWith.get("l" + v.line) || []).length === 1);
        const other = (f + 1) % p.schedules.length, only = (kind, n) => [...Array(n).keys()].find((i) => { const list = p.functionsWith.get(kind + i) || []; return list.length === 1 && list[0] === f; });
        if (!weight || !op) return say("stages", `function ${f} has no weight or no value of its own`);
        const message = only("c", p.collectives.length), kernel = only("k", p.kernels.length);
        for (const [key, where] of [["v" + weight[1], ["memory"]], ["v" + op[1], ["schedule", "memory", "kernels"]], ["l" + op[0].line, ["schedule", "memory"]], ["d" + s.places[0], ["tensors", "kernels"]],
          ["p" + f, ["schedule"]], message === undefined ? [] : ["c" + message, ["schedule", "communication"]], kernel === undefined ? [] : ["k" + kernel, ["schedule", "memory", "kernels"]]].filter((x) => x.length))
          for (const id of where) {
            show(id);
            showFunction(other);
            select(key);
            if (p.functionIndex !== f) say(id, `'${key}' shows function ${p.functionIndex}, not ${f}`);
            if (!lit(id)) say(id, `'${key}' of function ${f} does not light up`);
            if (id === "memory" && !byId("pane-memory").querySelector("h2").textContent.includes(s.devices.join(", "))) say(id, "the memory is not that of the stage");
            select("");
          }
        show("tensors");
        select("v" + weight[1]);
        if (!byId("pane-tensors").textContent.includes(`only devices with pp=${f} hold it`)) say("tensors", `'${weight[0].name}' is not held by one stage`);
        const cells = [...byId("pane-tensors").querySelectorAll(".cell")];
        if (!cells.length || cells.some((c) => !c.textContent.includes("pp=" + f) || c.dataset.k.split(" ").some((k) => !s.places.includes(Number(k.slice(1)))))) say("tensors", `the cells of '${weight[0].name}' are of other devices`);
        // The memory of a stage, and what its devices hold, are the same arguments.
        select("d" + s.places[0]);
        showFunction(f);
        const rows = [...tensorsPane.parts.device.querySelectorAll("tr[data-k]")].map((r) => p.values[Number(r.dataset.k.slice(1))].name);
        for (const b of p.buffers) if (b.what === "argument" && rows.length < 60 && !rows.includes(b.value) && p.values.some((v) => v && v.name === b.value)) say("tensors", `device ${s.places[0]} does not hold ${b.value}`);
        select("");
      });
    }
    // "Unfold all" shows boxes that can be read.
    if (p.graph && p.graph.drawings.length > 1) {
      show("graph");
      [...document.querySelectorAll("#pane-graph button")].find((b) => b.textContent === "Unfold all").click();
      if (graphPane.view.scale < 0.35) say("graph", `unfolded boxes are drawn at a scale of ${graphPane.view.scale}`);
      [...document.querySelectorAll("#pane-graph button")].find((b) => b.textContent === "Fold all").click();
    }
    // A search finds what dtc explain calls the values that are communicated.
    for (const c of p.collectives.filter((c) => c.value)) {
      const value = namesOf(c).findLast((name) => !name.startsWith("in "));
      byId("search").value = value;
      byId("search").dispatchEvent(new Event("input"));
      if (byId("search").getAttribute("aria-invalid") === "true") say("search", `'${value}' of dtc explain is not found`);
      else if (c.lines.length && !"lcvg".includes(state.selected[0])) say("search", `'${value}' selects '${state.selected}'`);
    }
    byId("search").value = "", byId("search").dispatchEvent(new Event("input"));
    select("");
    // ×N after a collective is the number of its messages: those of the boxes of the whole graph are not more than all.
    if (p.graph)
      p.collectives.forEach((c, i) => {
        const count = (n) => (n.collectives || []).includes(i) ? n.messages[n.collectives.indexOf(i)] : 0;
        const most = Math.max(0, ...p.graph.drawings[0].nodes.map(count)), line = Math.max(0, ...p.source.lines.map(count));
        if (most > c.messages || line > c.messages || (c.lines.length && !line)) say("counts", `${c.value} has ${c.messages} messages, ${most} in a box, ${line} at a line`);
      });
    // Uses of kernels are sums over the stages, and the pane says so.
    if (p.kernels.length) {
      show("kernels");
      const uses = p.schedules.flatMap((s) => s.rows).filter((r) => r.kernel >= 0).reduce((t, r) => t + r.times, 0), sum = p.kernels.reduce((t, k) => t + k.uses, 0);
      if (p.schedules.every((s) => s.rows.every((r) => r.kind !== "repeat")) && Math.abs(uses - sum) > 0.5) say("kernels", `${sum} uses, of ${uses} steps`);
      if (byId("pane-kernels").textContent.includes("summed over the stages") !== (p.schedules.length > 1)) say("kernels", "it does not say whether it sums over stages");
    }
    // Messages that differ from those of the collectives say how many these have.
    if (p.step && p.communication && p.collectives.length) {
      show("communication");
      const below = new Map(p.communication.summary.axes.map((a) => [a.label, a.count])), differ = p.step.axes.slice(0, 12).filter((a) => (below.get(a.label) || 0) !== a.count);
      for (const a of differ) if (!byId("pane-communication").textContent.includes(`${a.count.toLocaleString("en")} (${(below.get(a.label) || 0).toLocaleString("en")} below)`)) say("communication", `the messages over ${a.label} are not explained`);
    }
    // A search finds steps of every stage, and shows the stage. A line that is left out has its own number.
    const last = p.schedules.length - 1, inFunction = (words) => p.schedules.map((s) => s.rows.some((r) => (r.what + " " + r.value).toLowerCase().includes(words)));
    const other = last > 0 && p.schedules[last].rows.find((r) => r.own_line !== r.line && r.value && inFunction((r.what + " " + r.value).toLowerCase()).indexOf(true) === last);
    if (last > 0 && p.source.folded && !other) say("search", "no step is of the last stage alone");
    if (other) {
      showFunction(0);
      byId("search").value = other.what + " " + other.value;
      byId("search").dispatchEvent(new Event("input"));
      byId("search").dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"}));
      const one = state.selected[0] === "s" && p.steps[Number(state.selected.slice(1))];
      if (p.functionIndex !== last || !one || one.value !== other.value) say("search", `'${byId("search").value}' of the last stage is not found`);
      if (!byId("selection").textContent.includes(p.placeOf(other.own_line))) say("search", `'${byId("search").value}' has not the line ${p.placeOf(other.own_line)}: ${byId("selection").textContent}`);
      byId("search").value = "", byId("search").dispatchEvent(new Event("input"));
      select("");
    }
    byId("theme").click();
    show("schedule");
    layout("schedule, other theme", byId("pane-schedule"));
  } catch (e) {
    say("script", e.stack || String(e));
  }
  document.body.replaceChildren(Object.assign(document.createElement("pre"), {id: "result", textContent: JSON.stringify({wrong: [...(window.pageErrors || []), ...wrong], counts})}));
})();
