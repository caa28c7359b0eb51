#include "diff/Causes.h"

#include "diff/AttributeDiff.h"
#include "diff/Layers.h"
#include "diff/Rows.h"
#include "dtc/Support/Words.h"
#include "explain/ExplainGroups.h"

#include <map>

namespace dtc {

namespace {

// "@pod{(dp, tp), _ | sum(tp)}" without the axis tp: "@pod{dp, _}".
std::string withoutAxes(const std::string& sharding, const std::set<std::string>& axes) {
  std::string out, word;
  size_t depth = 0, inGroup = 0; // of parentheses; axes written in the innermost one
  size_t groupBegin = 0;
  const auto flush = [&] {
    if (!word.empty() && axes.contains(word)) {
      if (depth == 0) out += "_";
    } else if (!word.empty()) {
      if (depth > 0 && inGroup++ > 0) out += ", ";
      out += word;
    }
    word.clear();
  };
  for (char c : sharding) {
    if (c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      word += c;
      continue;
    }
    if (c == '(') {
      out += word; // sum
      word.clear();
      ++depth, inGroup = 0, groupBegin = out.size();
      out += c;
      continue;
    }
    flush();
    if (depth > 0 && (c == ',' || c == ' ')) continue;
    if (c == ')' && depth > 0) {
      --depth;
      const size_t bar = out.rfind(" | ");
      const bool clause = bar != out.npos;
      if (inGroup == 0 && clause) out.erase(bar);
      if (inGroup == 0 && !clause) out.erase(groupBegin), out += "_";
      if (inGroup == 1 && !clause) out.erase(groupBegin, 1);
      if (inGroup != 1 || clause) out += inGroup == 0 ? "" : ")";
      continue;
    }
    out += c;
  }
  flush();
  return out;
}

// "%blocks_12" of "%blocks_12_h": what statements of one layer begin with. A number at the end is not a layer's.
std::string layerOf(const SnapshotStatement& s) {
  const LayerName layer = layerName(s);
  return layer.base.empty() ? "" : layer.base + std::to_string(layer.number);
}

// "@layer:%h"; without the function for the entry.
std::string qualified(const SnapshotStatement& s) {
  return s.function.empty() ? s.name : "@" + s.function + ":" + s.name;
}

// "@layer" of a call.
std::string calleeOf(const SnapshotStatement& s) {
  return s.attributes.starts_with("@") ? s.attributes.substr(0, s.attributes.find(' ')) : "";
}

// "f32" of "f32[64, 512]", and the sizes.
std::string dtypeText(const std::string& type) { return type.substr(0, type.find('[')); }
std::string shapeText(const std::string& type) { return type.substr(std::min(type.find('['), type.size())); }

// Settings, then the number of layers and of iterations and the dtype of all arguments, which many other changes go
// with. Functions come last: what calls them is smaller, and says more.
int rankOf(const FoundCause& f) {
  const DiffCause& c = f.cause;
  if (c.kind == DiffCause::Setting) return 0;
  if (c.op == "layer") return 1;
  const bool dtype = c.kind == DiffCause::Type && shapeText(c.before).empty();
  if (f.loop || dtype || (c.kind == DiffCause::Attributes && isForLoop(c.op))) return 2;
  return c.op == "function" ? 4 : 3;
}

class Finder {
public:
  Finder(const ProgramSnapshot& a, const ProgramSnapshot& b, const MatchedStatements& m,
         const ShardingEquality& equal, const CompiledNames& names)
      : a_(a), b_(b), m_(m), equal_(equal), names_(names) {}

  Causes run() {
    settings();
    passedTypes();
    for (size_t node = 0; node < m_.b.size(); ++node)
      if (m_.inA(node)) compare(node);
    for (const bool inB : {false, true}) layers(inB), unmatched(inB);
    mergeBoundaries();
    sortRows(out_.found, [](const FoundCause& f) { return std::pair(rankOf(f), f.cause.statements); });
    for (FoundCause& f : out_.found) {
      sortRows(f.names, [](const std::string& name) { return name.starts_with("@"); }); // of the entry first
      f.cause.what = namesText(f.names);
    }
    return std::move(out_);
  }

private:
  // The arguments of functions whose types follow from those of the operands of a call.
  void passedTypes() {
    std::unordered_map<std::string, std::vector<size_t>> arguments; // of B, by function
    for (size_t i = 0; i < m_.b.size(); ++i)
      if (m_.b[i].op == "argument") arguments[m_.b[i].function].push_back(i);
    for (size_t node = 0; node < m_.b.size(); ++node) {
      const SnapshotStatement &call = m_.b[node], *before = m_.inA(node);
      const std::string callee = calleeOf(call);
      const auto it = callee.empty() || !before ? arguments.end() : arguments.find(callee.substr(1));
      if (it == arguments.end() || it->second.size() != call.operands.size() ||
          before->operands.size() != call.operands.size())
        continue;
      for (size_t k = 0; k < it->second.size(); ++k) {
        const size_t argument = it->second[k];
        const SnapshotStatement* inA = m_.inA(argument);
        if (inA && m_.b[argument].type != inA->type &&
            hasType(m_.a[static_cast<size_t>(before->operands[k])], inA->type) &&
            hasType(m_.b[static_cast<size_t>(call.operands[k])], m_.b[argument].type))
          passed_.insert(argument);
      }
    }
  }

  // One of its results has the type.
  static bool hasType(const SnapshotStatement& s, const std::string& type) {
    return ("], " + s.type + ", ").find("], " + type + ", ") != std::string::npos;
  }

  // The names of a statement in reports: those of the compiled program, otherwise "@f:%h".
  std::vector<std::string> shownNames(size_t node, const SnapshotStatement& s) const {
    if (!s.function.empty() && node < names_.size() && !names_[node].empty()) return names_[node];
    return {qualified(s)};
  }

  void settings() {
    if (a_.settings.empty() || b_.settings.empty()) return; // of explain --json
    std::map<std::string, std::string> inA(a_.settings.begin(), a_.settings.end());
    const auto addOne = [&](const std::string& what, const std::string& before, const std::string& after) {
      DiffCause c;
      c.before = before, c.after = after, c.statements = 0;
      if (before != after) add(std::move(c), "setting " + what, {what}, {});
    };
    for (const auto& [what, value] : b_.settings) {
      const auto it = inA.find(what);
      addOne(what, it == inA.end() ? "none" : it->second, value);
      if (it != inA.end()) inA.erase(it);
    }
    for (const auto& [what, value] : inA) addOne(what, value, "none");
  }

  // Causes with equal keys are one.
  FoundCause& add(DiffCause cause, const std::string& key, const std::vector<std::string>& names,
                  std::span<const size_t> nodes) {
    const auto [it, isNew] = byKey_.try_emplace(key, out_.found.size());
    if (isNew) {
      out_.found.push_back({std::move(cause), {}, {}});
    } else {
      ++out_.found[it->second].cause.count;
      out_.found[it->second].cause.statements += cause.statements;
    }
    FoundCause& f = out_.found[it->second];
    f.names.insert(f.names.end(), names.begin(), names.end());
    f.nodes.insert(f.nodes.end(), nodes.begin(), nodes.end());
    return f;
  }

  void compare(size_t node) {
    const SnapshotStatement &a = *m_.inA(node), &b = *m_.inB(node);
    const size_t nodes[] = {node};
    const auto addOne = [&](DiffCause::Kind kind, const std::string& before, const std::string& after) {
      // Calls of copies of one function for several shapes are equal.
      const bool called = !calleeOf(a).empty() && !calleeOf(b).empty();
      const std::string change = before + "|" + after;
      // An argument of a function has the annotation of what is passed.
      const bool passed = kind == DiffCause::Annotation && b.op == "argument";
      const std::string key = std::to_string(kind) + "|" + b.op + "|" + (passed ? "" : b.function) + "|" +
                              (called ? patternOf(change).text : change);
      return &add({kind, "", b.op, before, after, b.location}, key, shownNames(node, b), nodes);
    };
    if (!equal_(a.annotation, b.annotation))
      addOne(DiffCause::Annotation, shardingText(a.annotation), shardingText(b.annotation));
    if (a.op != b.op) addOne(DiffCause::Op, a.op, b.op);
    bool follows = false;
    const bool operands = operandsDiffer(a, b, follows);
    const bool shaped = a.type != b.type && operandTypesDiffer(a, b);
    const AttributeDiff attributes = diffAttributes(a, b, operandTypes(a, b), follows);
    if (!attributes.empty()) {
      FoundCause* f =
          addOne(DiffCause::Attributes, shardingText(attributes.before), shardingText(attributes.after));
      // Of a loop, they are its bounds.
      const bool values = !attributes.attributes && !isForLoop(b.op) && (a.type == b.type || shaped);
      f->values = values && (f->values || f->cause.count == 1);
    }
    const bool toLiteral = attributes.constants && a.operands.size() != b.operands.size();
    if (operands && !toLiteral && a.op == b.op) {
      const auto list = [](const Statements& all, const SnapshotStatement& s) {
        if (s.operands.empty()) return std::string("none");
        return joined(s.operands, ", ", [&](int32_t o) { return all[static_cast<size_t>(o)].name; });
      };
      addOne(DiffCause::Operands, list(m_.a, a), list(m_.b, b));
    }
    if (a.type == b.type) return;
    const bool written = a.op == b.op && a.operands.empty() && b.operands.empty(); // of an argument, an iota
    if (passed_.contains(node) ||
        (!written && (shaped || !attributes.empty() || operands || follows || a.op != b.op)))
      ++out_.types;
    else if (b.op == "argument" && dtypeText(a.type) != dtypeText(b.type) &&
             shapeText(a.type) == shapeText(b.type))
      addDType(node);
    else
      addOne(DiffCause::Type, a.type, b.type);
  }

  // Arguments of all sizes whose dtypes change alike are one cause.
  void addDType(size_t node) {
    const SnapshotStatement &a = *m_.inA(node), &b = *m_.inB(node);
    const std::string before = dtypeText(a.type), after = dtypeText(b.type);
    const size_t nodes[] = {node};
    FoundCause& f = add({DiffCause::Type, "", b.op, a.type, b.type, b.location},
                        "dtype " + before + "|" + after, shownNames(node, b), nodes);
    if (f.cause.before != a.type) f.cause.before = before, f.cause.after = after;
  }

  OperandTypes operandTypes(const SnapshotStatement& a, const SnapshotStatement& b) const {
    OperandTypes out;
    for (size_t k = 0; k < std::min(a.operands.size(), b.operands.size()); ++k)
      out.emplace_back(m_.a[static_cast<size_t>(a.operands[k])].type,
                       m_.b[static_cast<size_t>(b.operands[k])].type);
    return out;
  }

  // `follows`: an operand was added or removed, which is the cause.
  bool operandsDiffer(const SnapshotStatement& a, const SnapshotStatement& b, bool& follows) const {
    bool differ = a.operands.size() != b.operands.size();
    const auto nodeA = [&](int32_t o) { return m_.nodeA(static_cast<size_t>(o)); };
    const auto nodeB = [&](int32_t o) { return m_.nodeB(static_cast<size_t>(o)); };
    for (size_t k = 0; k < std::min(a.operands.size(), b.operands.size()); ++k)
      differ = differ || nodeA(a.operands[k]) != nodeB(b.operands[k]);
    if (!differ) return false;
    follows = std::ranges::any_of(a.operands, [&](int32_t o) { return !m_.inB(nodeA(o)); }) ||
              std::ranges::any_of(b.operands, [&](int32_t o) { return !m_.inA(nodeB(o)); });
    return !follows;
  }

  bool operandTypesDiffer(const SnapshotStatement& a, const SnapshotStatement& b) const {
    return std::ranges::any_of(operandTypes(a, b), [](const auto& t) { return t.first != t.second; });
  }

  // Layers that one program has alone: their arguments, results and ops in all functions.
  void layers(bool inB) {
    const Statements& all = inB ? m_.b : m_.a;
    const std::vector<std::string> names = layersAlone(m_, inB);
    std::vector<std::string>& layers = layers_ = names;
    // An unnamed value within it.
    for (size_t i = 1; i < all.size(); ++i) {
      const size_t node = inB ? m_.nodeB(i) : m_.nodeA(i);
      const bool alone = !m_.inA(node) || !m_.inB(node);
      const size_t next = static_cast<size_t>(
          std::ranges::find_if(all.begin() + static_cast<ptrdiff_t>(i), all.end(), isNamed) - all.begin());
      if (alone && !isNamed(all[i]) && !layers[i - 1].empty() && next < all.size() &&
          names[next] == layers[i - 1] && all[next].function == all[i].function)
        layers[i] = layers[i - 1];
    }
    std::vector<std::string> order;
    std::map<std::string, std::vector<size_t>> of;
    for (size_t i = 0; i < all.size(); ++i) {
      if (layers[i].empty()) continue;
      if (!of.contains(layers[i])) order.push_back(layers[i]);
      of[layers[i]].push_back(i);
    }
    for (const std::string& layer : order) {
      DiffCause c;
      c.kind = inB ? DiffCause::Added : DiffCause::Removed;
      c.op = "layer";
      std::vector<size_t> nodes;
      for (size_t i : of.at(layer)) {
        nodes.push_back(inB ? m_.nodeB(i) : m_.nodeA(i));
        if (c.location.empty() && !isBoundary(all[i])) c.location = all[i].location;
      }
      c.statements = nodes.size();
      (inB ? c.after : c.before) =
          std::to_string(nodes.size()) + (nodes.size() == 1 ? " statement" : " statements");
      add(std::move(c), (inB ? "+layer " : "-layer ") + patternOf(layer).text, {layer}, nodes);
    }
  }

  // Runs of statements of one program alone. Arguments and results stand for themselves, and a run ends where
  // the layer or the function changes, so that equal layers are one cause.
  void unmatched(bool inB) {
    const Statements& all = inB ? m_.b : m_.a;
    std::set<std::string> matched = {""}; // functions of both programs
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t node = inB ? m_.nodeB(i) : m_.nodeA(i);
      if (m_.inA(node) && m_.inB(node)) matched.insert(all[i].function);
    }
    std::vector<size_t> run;
    std::string layer;
    const auto flush = [&] {
      const bool alike = std::ranges::all_of(run, [&](size_t i) { return all[i].op == all[run[0]].op; });
      if (!run.empty() && matched.contains(all[run[0]].function))
        for (size_t i = 0; i < run.size(); i += alike ? 1 : run.size())
          addRun(inB, alike ? std::span(run).subspan(i, 1) : run);
      else if (!run.empty())
        addFunction(inB, run);
      run.clear(), layer.clear();
    };
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t node = inB ? m_.nodeB(i) : m_.nodeA(i);
      if ((m_.inA(node) && m_.inB(node)) || !layers_[i].empty()) {
        flush();
        continue;
      }
      const std::string own = layerOf(all[i]);
      const bool alone = isBoundary(all[i]) && all[i].function.empty();
      const bool inside = matched.contains(all[i].function); // of a function that has other statements
      if (alone || (inside && !own.empty() && !layer.empty() && own != layer) ||
          (!run.empty() && all[run.back()].function != all[i].function))
        flush();
      if (!own.empty()) layer = own;
      run.push_back(i);
      if (alone) flush();
    }
    flush();
  }

  // Copies of one function for several shapes are one cause.
  void addFunction(bool inB, std::span<const size_t> run) {
    const Statements& all = inB ? m_.b : m_.a;
    const SnapshotStatement& first = all[run[0]];
    std::vector<size_t> nodes;
    for (size_t i : run) nodes.push_back(inB ? m_.nodeB(i) : m_.nodeA(i));
    DiffCause c;
    c.kind = inB ? DiffCause::Added : DiffCause::Removed;
    c.op = "function", c.location = first.location;
    const auto ops = std::ranges::count_if(
        run, [&](size_t i) { return all[i].op != "argument" && all[i].op != "result"; });
    (inB ? c.after : c.before) = std::to_string(ops) + (ops == 1 ? " op" : " ops");
    c.statements = run.size();
    add(std::move(c), (inB ? "+function " : "-function ") + first.location, {"@" + first.function}, nodes);
  }

  void addRun(bool inB, std::span<const size_t> run) {
    const Statements& all = inB ? m_.b : m_.a;
    const SnapshotStatement& first = all[run[0]];
    std::string key = (inB ? "+" : "-") + first.function;
    std::vector<std::string> ops;
    std::vector<size_t> nodes;
    for (size_t i : run) {
      key += "|" + all[i].op;
      if (run.size() > 1) key += patternOf(all[i].name).text;
      if (std::ranges::find(ops, all[i].op) == ops.end()) ops.push_back(all[i].op);
      nodes.push_back(inB ? m_.nodeB(i) : m_.nodeA(i));
    }
    constexpr size_t kShownOps = 4;
    const bool more = ops.size() > kShownOps;
    if (more) ops.resize(kShownOps);
    std::string what = joined(ops) + (more ? ", ..." : "");
    if (run.size() == 1) {
      what = isBoundary(first) ? first.type : first.op;
      if (!first.annotation.empty()) what += " " + first.annotation;
      if (!first.attributes.empty()) what += " " + first.attributes;
      key += "|" + what;
    }
    DiffCause c;
    c.kind = inB ? DiffCause::Added : DiffCause::Removed;
    c.op = run.size() == 1 ? first.op : "";
    (inB ? c.after : c.before) = what;
    c.location = first.location;
    c.statements = run.size();
    FoundCause& f = add(std::move(c), key, shownNames(nodes[0], first), nodes);
    f.loop = std::ranges::any_of(run, [&](size_t i) { return isLoop(all[i].op); });
  }

  // Many kinds of added or removed arguments are one cause: the state of another optimizer, for example.
  void mergeBoundaries() {
    constexpr size_t kMostKinds = 2;
    for (const DiffCause::Kind kind : {DiffCause::Added, DiffCause::Removed})
      for (const char* op : {"argument", "result"}) {
        const auto isOne = [&](const FoundCause& f) { return f.cause.kind == kind && f.cause.op == op; };
        if (static_cast<size_t>(std::ranges::count_if(out_.found, isOne)) <= kMostKinds) continue;
        FoundCause all;
        for (const FoundCause& f : out_.found) {
          if (!isOne(f)) continue;
          if (all.names.empty())
            all.cause = f.cause;
          else
            all.cause.count += f.cause.count, all.cause.statements += f.cause.statements;
          all.names.insert(all.names.end(), f.names.begin(), f.names.end());
          all.nodes.insert(all.nodes.end(), f.nodes.begin(), f.nodes.end());
        }
        (kind == DiffCause::Added ? all.cause.after : all.cause.before) += " and others";
        std::erase_if(out_.found, isOne);
        out_.found.push_back(std::move(all));
      }
  }

  const ProgramSnapshot& a_;
  const ProgramSnapshot& b_;
  const MatchedStatements& m_;
  const ShardingEquality& equal_;
  const CompiledNames& names_;
  std::set<size_t> passed_;         // arguments whose types follow from calls
  std::vector<std::string> layers_; // by statement: that the program has alone
  std::unordered_map<std::string, size_t> byKey_;
  Causes out_;
};

} // namespace

ShardingEquality::ShardingEquality(const ProgramSnapshot& a, const ProgramSnapshot& b) {
  for (const ProgramSnapshot* p : {&a, &b})
    for (const auto& [what, sizes] : p->settings) {
      if (!what.starts_with("mesh ")) continue;
      for (size_t begin = 0; begin < sizes.size();) {
        const size_t end = std::min(sizes.find(", ", begin), sizes.size());
        const std::string axis = sizes.substr(begin, end - begin);
        if (axis.ends_with("=1")) trivial_.insert(axis.substr(0, axis.size() - 2));
        begin = end + 2;
      }
    }
}

bool ShardingEquality::operator()(const std::string& a, const std::string& b) const {
  if (a == b || trivial_.empty()) return a == b;
  return withoutAxes(a, trivial_) == withoutAxes(b, trivial_);
}

std::string shardingText(const std::string& sharding) { return sharding.empty() ? "none" : sharding; }

Causes findCauses(const ProgramSnapshot& a, const ProgramSnapshot& b, const MatchedStatements& m,
                  const ShardingEquality& equal, const CompiledNames& names) {
  return Finder(a, b, m, equal, names).run();
}

} // namespace dtc
