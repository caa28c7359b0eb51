"""Writes a .pt2 file as torch.export.save does, from a program in the notation of dtc's own listing:

    weight %w : f32[2, 2]  # fc.weight = 1 2 3 4
    input %x : f32[s0, 2]
    %y : f32[s0, 2] = aten.linear.default(input=%x, weight=%w)  # model.py:3 fc
    output %y

Lines before the first of these and comments are skipped. A weight may have strides and an offset into its values:
"# fc.weight = 1 2 3 4 strides 1 2 offset 0". Other values may have both after the type. A node without results
is "_ = aten.…". `graph NAME:` begins a nested graph. `returns {"a": [0, 0]}` is the
structure of the result, as JSON: lists are tuples, and other values tensors. Usage: make-pt2.py TEXT FILE [KEY=VALUE…]"""

import json
import re
import struct
import sys
import zipfile

DTYPES = {"u8": (1, "B"), "i8": (2, "b"), "i16": (3, "h"), "i32": (4, "i"), "i64": (5, "q"), "f16": (6, "e"), "f32": (7, "f"),
          "f64": (8, "d"), "c32": (9, "I"), "bool": (12, "?"), "bf16": (13, "H"), "c64": (10, "Q"), "c128": (11, "")}
SYMBOL = "Symbol('{}', positive=True, integer=True)"


def size(text):
    """3, s0, 2*s0, s0+s1"""
    if re.fullmatch(r"-?\d+", text):
        return {"as_int": int(text)}

    def term(t):
        factors = [f"Integer({f})" if f.isdigit() else SYMBOL.format(f) for f in t.split("*")]
        return factors[0] if len(factors) == 1 else "Mul(" + ", ".join(factors) + ")"

    terms = [term(t) for t in text.split("+")]
    return {"as_expr": {"expr_str": terms[0] if len(terms) == 1 else "Add(" + ", ".join(terms) + ")", "hint": {"as_int": 2}}}


def tensor_meta(dtype, sizes, strides=None, offset=0):
    ints = [int(s) if s.isdigit() else 1 for s in sizes]
    if strides is None:
        strides = [1] * len(ints)
        for i in range(len(ints) - 2, -1, -1):
            strides[i] = strides[i + 1] * ints[i + 1]
    return {"dtype": DTYPES[dtype][0], "sizes": [size(s) for s in sizes], "requires_grad": False, "device": {"type": "cpu", "index": None},
            "strides": [{"as_int": s} for s in strides], "storage_offset": {"as_int": offset}, "layout": 7}


def split(text):
    """At the commas outside of brackets and quotes."""
    parts, depth, quoted, begin = [], 0, False, 0
    for i, c in enumerate(text):
        quoted ^= c == '"'
        if not quoted:
            depth += (c in "[(") - (c in ")]")
        if c == "," and depth == 0 and not quoted:
            parts.append(text[begin:i])
            begin = i + 1
    return [p.strip() for p in [*parts, text[begin:]] if p.strip()]


def tree_spec(tree):
    """As torch.utils._pytree.treespec_dumps writes it."""
    if not isinstance(tree, (dict, list)):
        return {"type": None, "context": None, "children_spec": []}
    children = list(tree.values()) if isinstance(tree, dict) else tree
    return {"type": f"builtins.{'dict' if isinstance(tree, dict) else 'tuple'}", "children_spec": [tree_spec(c) for c in children],
            "context": json.dumps(list(tree)) if isinstance(tree, dict) else "null"}


class Program:
    def __init__(self, text):
        self.graphs, self.weights, self.inputs, self.outputs = {}, {}, [], []
        self.calls = []
        name, lines = "main", {"main": []}
        for line in text.splitlines():
            line = line.strip()
            if begun := re.fullmatch(r"graph (\w+):", line):
                name = begun[1]
                lines[name] = []
            elif re.match(r"(input|output|weight|buffer|carry|returns) |%|_ =", line):
                lines[name].append(line)
        self.lines = lines
        self.main = self.graph("main")

    def graph(self, name):
        g = {"inputs": [], "outputs": [], "nodes": [], "tensor_values": {}, "sym_int_values": {}, "sym_bool_values": {},
             "is_single_tensor_return": False, "custom_obj_values": {}, "sym_float_values": {}}
        for line in self.lines[name]:
            self.line(line, g, name == "main")
        return g

    def declared(self, text, g):
        """%x : f32[2, 3] strides 1 2 offset 3 -> x, its metadata"""
        m = re.fullmatch(r"%([\w.]+)(?: : (\w+)(?:\[(.*)\])?)?(?: strides ([\d ]+))?(?: offset (\d+))?", text.strip())
        if m[2] == "sym":
            g["sym_int_values"][m[1]] = size(m[3])
            return m[1], None
        strides = m[4] and [int(s) for s in m[4].split()]
        meta = tensor_meta(m[2], split(m[3] or ""), strides, int(m[5] or 0)) if m[2] else None
        if meta:
            g["tensor_values"][m[1]] = meta
        return m[1], meta

    def line(self, line, g, main):
        word, _, rest = line.partition(" ")
        body, _, comment = rest.partition("  # ")
        if word in ("input", "weight", "buffer"):
            name, meta = self.declared(body, g)
            g["inputs"].append({"as_tensor": {"name": name}})
            if not main:
                return
            if word == "input":
                self.inputs.append({"user_input": {"arg": {"as_tensor": {"name": name}}}})
                return
            path, _, values = comment.partition(" = ")
            kind = "parameter" if word == "weight" else "buffer"
            spec = {"arg": {"name": name}, f"{kind}_name": path}
            self.inputs.append({kind: spec if word == "weight" else {**spec, "persistent": True}})
            self.weights[path] = (meta, values)
        elif word == "output":
            g["outputs"].append(self.argument(body.strip(), g))
            if main:
                self.outputs.append({"user_output": {"arg": g["outputs"][-1]}})
        elif word == "returns":
            self.calls = [{"fqn": "", "signature": {"out_spec": json.dumps([1, tree_spec(json.loads(rest))])}}]
        elif word == "carry":  # carry %new fc.running_mean
            value, path = body.split()
            g["outputs"].append(self.argument(value, g))
            self.outputs.append({"buffer_mutation": {"arg": {"name": value[1:]}, "buffer_name": path}})
        else:
            self.node(line, g)

    def node(self, line, g):
        line, _, comment = line.partition("  # ")
        results, call = line.split(" = ", 1)
        target, arguments = re.fullmatch(r"([\w.]+)\((.*)\)", call.strip()).groups()
        outputs = []
        for r in split(results if results != "_" else ""):
            name, meta = self.declared(r, g)
            outputs.append({"as_tensor": {"name": name}} if name not in g["sym_int_values"] else {"as_sym_int": {"as_name": name}})
        inputs = []
        for a in split(arguments):
            m = re.match(r"(\w+)=(.*)", a)
            inputs.append({"name": m[1] if m else "", "arg": self.argument(m[2] if m else a, g), "kind": 1})
        metadata = {}
        if m := re.match(r"(\S+):(\d+)(?: (\S+))?", comment):
            metadata["stack_trace"] = f'File "{m[1]}", line {m[2]}, in forward\n    return self.fc(x)'
            if m[3]:
                metadata["nn_module_stack"] = f"L__self__,,Model;L__self__{m[3]},{m[3]},torch.nn.Module"
        g["nodes"].append({"target": "torch.ops." + target, "inputs": inputs, "outputs": outputs, "metadata": metadata,
                           "is_hop_single_tensor_return": None, "name": ""})

    def argument(self, text, g):
        if text.startswith("%"):
            name = text[1:]
            return {"as_sym_int": {"as_name": name}} if name in g["sym_int_values"] else {"as_tensor": {"name": name}}
        if text.startswith("["):
            items = split(text[1:-1])
            if any(i.startswith("%") for i in items):
                if "none" in items:
                    return {"as_optional_tensors": [{"as_none": True} if i == "none" else {"as_tensor": {"name": i[1:]}} for i in items]}
                if all(i[1:] not in g["sym_int_values"] for i in items if i.startswith("%")):
                    return {"as_tensors": [{"name": i[1:]} for i in items]}
                return {"as_sym_ints": [{"as_name": i[1:]} if i.startswith("%") else {"as_int": int(i)} for i in items]}
            return {"as_ints": [int(i) for i in items]}
        if text in self.lines:
            return {"as_graph": {"name": text, "graph": self.graph(text)}}
        if text.startswith('"'):
            return {"as_string": text[1:-1]}
        if text in ("true", "false"):
            return {"as_bool": text == "true"}
        if text == "none":
            return {"as_none": True}
        if text in DTYPES:
            return {"as_scalar_type": DTYPES[text][0]}
        if re.fullmatch(r"-?\d+", text):
            return {"as_int": int(text)}
        return {"as_float": {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(text) or float(text)}

    def json(self):
        return {"graph_module": {"graph": self.main, "signature": {"input_specs": self.inputs, "output_specs": self.outputs},
                                 "module_call_graph": self.calls, "metadata": {}, "treespec_namedtuple_fields": {}},
                "opset_version": {"aten": 10}, "range_constraints": {}, "schema_version": {"major": 8, "minor": 20}, "verifiers": ["TRAINING"],
                "torch_version": "2.15.0", "guards_code": []}


def storages(weights):
    """The configuration, and the bytes of each storage."""
    config, data = {}, {}
    for number, (path, (meta, values)) in enumerate(weights.items()):
        dtype = next(code for n, code in DTYPES.values() if n == meta["dtype"])
        m = re.fullmatch(r"(same as (?P<same>\S+)|(?P<values>.*?))( strides (?P<strides>[\d ]+?))?( offset (?P<offset>\d+))?", values.strip())
        entry = f"weight_{number}"
        if m["same"]:
            entry = config[m["same"]]["path_name"]
        else:
            numbers = [float(v) if dtype in "efd" else int(v) for v in m["values"].split()]
            data[entry] = struct.pack(f"<{len(numbers)}{dtype}", *numbers)
        meta = dict(meta)
        if m["strides"]:
            meta["strides"] = [{"as_int": int(s)} for s in m["strides"].split()]
        if m["offset"]:
            meta["storage_offset"] = {"as_int": int(m["offset"])}
        config[path] = {"path_name": entry, "is_param": True, "use_pickle": False, "tensor_meta": meta}
    return {"config": config}, data


def archive(path, program, config, data, changes):
    """Entries stored at multiples of 64 bytes, sizes after the data, as PyTorch's own writer does it."""
    files = {"data/weights/" + name: bytes_ for name, bytes_ in data.items()}
    files |= {"data/weights/model_weights_config.json": json.dumps(config), "data/constants/model_constants_config.json": '{"config": {}}',
              "models/model.json": json.dumps(program), "archive_format": "pt2", "archive_version": "0", "byteorder": "little",
              ".data/version": "6"}
    for change in changes:
        key, _, value = change.partition("=")
        if value:
            files[key] = value
        else:
            del files[key]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as out:
        for name, content in files.items():
            entry = zipfile.ZipInfo("model/" + name, (1980, 1, 1, 0, 0, 0))
            entry.flag_bits = 0x808
            entry.extra = b""
            pad = -(out.fp.tell() + 30 + len(entry.filename) + 4) % 64
            entry.extra = b"FB" + struct.pack("<H", pad) + b"Z" * pad
            out.writestr(entry, content)


with open(sys.argv[1]) as f:
    text = f.read()
if sys.argv[1].endswith(".json"):  # a program as PyTorch wrote it, and its weights
    fixture = json.loads(text)
    made, named = fixture["program"], {p: (tensor_meta(w["dtype"], [str(s) for s in w["sizes"]]), w["values"]) for p, w in fixture["weights"].items()}
else:
    parsed = Program(text)
    made, named = parsed.json(), parsed.weights
changes = sys.argv[3:]  # KEY=VALUE replaces an entry, KEY= removes it
for change in changes:
    if change.startswith("placement="):  # the member "dtc"
        made["dtc"] = json.loads(change.partition("=")[2])
    if change.startswith("schema:"):
        made["schema_version"]["major"] = int(change[7:])
configuration, raw = storages(named)
for change in changes:
    if change.startswith("pickled:"):
        configuration["config"][change[8:]]["use_pickle"] = True
archive(sys.argv[2], made, configuration, raw, [c for c in changes if "=" in c and not c.startswith("placement=")])
