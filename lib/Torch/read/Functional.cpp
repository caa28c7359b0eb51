#include "read/Functional.h"

#include "read/Foreach.h"
#include "read/Inline.h"
#include "read/Views.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace dtc {
namespace {

// Ops that change running statistics, and what they then are called: their last results are the next statistics.
struct UpdatingOp {
  std::string_view name, functional;
  bool always; // else only while training
  std::array<std::string_view, 4> statistics;
  std::string_view flag = "training";
};
constexpr std::array<std::string_view, 4> kMoments = {"running_mean", "running_var"},
                                          kObserved = {"running_min", "running_max", "scale", "zero_point"};
constexpr UpdatingOp kUpdating[] = {
    {"aten.batch_norm", "aten.batch_norm.functional", false, kMoments},
    {"aten.instance_norm", "aten.instance_norm.functional", false, kMoments, "use_input_stats"},
    {"aten.native_batch_norm", "aten._native_batch_norm_legit_functional.default", false, kMoments},
    {"aten._native_batch_norm_legit", "aten._native_batch_norm_legit_functional.default", false, kMoments},
    {"aten._batch_norm_with_update", "aten._batch_norm_with_update_functional.default", true, kMoments},
    {"aten.fused_moving_avg_obs_fake_quant", "aten.fused_moving_avg_obs_fake_quant.default", true, kObserved},
    {"aten._fused_moving_avg_obs_fq_helper", "aten._fused_moving_avg_obs_fq_helper_functional.default", true,
     kObserved},
};

// "aten.add_.Tensor" -> "aten.add.Tensor"; empty for ops that change nothing.
std::string functionalName(const std::string& target) {
  const std::string_view base = withoutOverload(target);
  if (!base.starts_with("aten.") || !base.ends_with('_') || base.ends_with("__")) return "";
  return std::string(base.substr(0, base.size() - 1)) + target.substr(base.size());
}

// Ops that return their results in tensors that they are given: "aten.mul.out" -> "aten.mul.default". Empty for
// others.
std::string withoutOut(const std::string& target) {
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"values", "default"},      {"values_stable", "stable"},
      {"dim_values", "dim"},      {"dim_max", "dim"},
      {"dim_min", "dim"},         {"grad_input", "default"},
      {"U", "default"},           {"L", "default"},
      {"X", "default"},           {"a", "default"},
      {"result", "default"},      {"sign", "default"},
      {"eigenvalues", "default"}, {"eigvals", "default"},
      {"inverse", "default"}};
  const std::string_view base = withoutOverload(target);
  if (!base.starts_with("aten.") || base.size() == target.size()) return "";
  const std::string_view overload = std::string_view(target).substr(base.size() + 1);
  const bool transposes = base == "aten.mT" || base == "aten.mH" || base == "aten.numpy_T" ||
                          base == "aten.matrix_H"; // which have an overload "a"
  const std::string stem = std::string(base) + ".";
  for (const auto& [name, functional] : kOthers)
    if (overload == name && !transposes) return stem + std::string(functional);
  if (overload == "out" || overload.starts_with("out_")) return stem + "default";
  if (overload.starts_with("Out")) return stem + std::string(overload.substr(3));
  return overload.ends_with("_out") ? stem + std::string(overload.substr(0, overload.size() - 4)) : "";
}

ImportValueRef tensorArgument(const ImportNode& n, std::string_view name) {
  const ImportArgument* a = argumentOf(n, name);
  const auto* ref = a ? std::get_if<ImportValueRef>(&a->value) : nullptr;
  return ref ? *ref : ImportValueRef();
}

// Null: the node changes no statistics.
const UpdatingOp* updatingOp(const ImportNode& n) {
  const auto* op = std::ranges::find(kUpdating, withoutOverload(n.target), &UpdatingOp::name);
  if (op == std::end(kUpdating)) return nullptr;
  const ImportArgument* training = argumentOf(n, op->flag);
  const auto* flag = training ? std::get_if<bool>(&training->value) : nullptr;
  if (!op->always && (!flag || !*flag)) return nullptr;
  const bool all = std::ranges::all_of(
      op->statistics, [&](std::string_view name) { return name.empty() || tensorArgument(n, name).valid(); });
  return all ? op : nullptr;
}

// In-place ops that give their operand another shape. Its data is unchanged.
bool changesShape(const std::string& target) {
  constexpr std::string_view kOps[] = {"aten.t",       "aten.transpose", "aten.swapaxes",   "aten.swapdims",
                                       "aten.squeeze", "aten.unsqueeze", "aten.as_strided", "aten.detach"};
  return std::ranges::find(kOps, withoutOverload(target)) != std::end(kOps);
}

class Functionalizer {
public:
  Functionalizer(ImportFile& file, ImportGraph& graph) : file_(file), graph_(graph) {}

  void share(const SharedWeight&);
  void run(bool carries) {
    std::vector<ImportNode> nodes = withoutLists(file_, withoutRegions(file_, std::move(graph_.nodes)));
    graph_.nodes.clear();
    for (ImportNode& n : nodes) node(std::move(n));
    for (ImportOutput& o : graph_.outputs) resolve(o.value);
    if (carries)
      carryInputs();
    else
      refuseChangedInputs();
  }

private:
  struct View {
    uint32_t base = 0; // the tensor that it views, by its first value
    ImportNode node;   // that takes it
    size_t result = 0;
    uint64_t generation = 0; // of the root's data, when it was taken
    bool stored = false;     // by the file: both are weights
  };
  // Two tensors of which the import does not know whether they share memory.
  struct PossibleAlias {
    uint32_t a = 0, b = 0; // roots
    std::string op;        // "": the file says that they do
  };
  // What a tensor may miss.
  struct Change {
    size_t writer = 0; // a node of the graph
    std::string why;
    bool stored = false; // two weights share memory
  };
  // A tensor and the result that is its next value.
  struct Write {
    uint32_t tensor = 0;
    size_t result = 0;
  };

  // The first value of the tensor that a value is a version of.
  uint32_t tensorOf(uint32_t v) const {
    const auto found = tensors_.find(v);
    return found == tensors_.end() ? v : found->second;
  }
  uint32_t rootOf(uint32_t tensor) const {
    for (auto v = views_.find(tensor); v != views_.end(); v = views_.find(tensor)) tensor = v->second.base;
    return tensor;
  }
  bool isViewOf(uint32_t tensor, uint32_t base) const {
    for (auto v = views_.find(tensor); tensor != base && v != views_.end(); v = views_.find(tensor))
      tensor = v->second.base;
    return tensor == base;
  }
  // The tensor's present value. A view of changed data is taken again.
  uint32_t present(uint32_t tensor) {
    if (const auto v = views_.find(tensor);
        v != views_.end() && v->second.generation != generations_[rootOf(tensor)]) {
      ImportNode again = v->second.node;
      setViewed(again, v->second.result, ImportValueRef{present(v->second.base)});
      for (ImportValueRef& r : again.results)
        if (r.valid()) r = fresh(r.index);
      v->second.generation = generations_[rootOf(tensor)];
      present_[tensor] = again.results[v->second.result].index;
      graph_.nodes.push_back(std::move(again));
    }
    const auto now = present_.find(tensor);
    return now == present_.end() ? tensor : now->second;
  }
  ImportValueRef fresh(uint32_t like) {
    ImportValue v = file_.values[like];
    file_.values.push_back(std::move(v));
    return {static_cast<uint32_t>(file_.values.size() - 1)};
  }
  std::string nameOf(uint32_t v) const { return "%" + file_.values[v].name; }

  void resolve(ImportValueRef& ref) {
    if (!ref.valid()) return;
    const uint32_t tensor = tensorOf(ref.index);
    if (const auto change = stale_.find(rootOf(tensor)); change != stale_.end())
      refuse(change->second, nameOf(change->first) + " is read later");
    ref.index = present(tensor);
  }
  void resolve(ImportAttribute& a) {
    if (auto* ref = std::get_if<ImportValueRef>(&a)) resolve(*ref);
    if (auto* list = std::get_if<std::vector<ImportValueRef>>(&a))
      for (ImportValueRef& r : *list) resolve(r);
  }
  void refuse(size_t node, const std::string& why, bool stored = false) {
    std::string& refused = graph_.nodes[node].refused;
    if (refused.empty())
      refused = why + (stored ? "; give each of them a tensor of its own before the export"
                              : "; import program.run_decompositions({}), which changes nothing in place");
  }
  void refuse(const Change& change, const std::string& fault) {
    refuse(change.writer, change.why + ", and " + fault, change.stored);
  }

  void node(ImportNode n);
  std::vector<Write> writesOf(ImportNode&);
  bool takeOuts(ImportNode&, std::vector<Write>&);
  void updateStatistics(ImportNode&, std::vector<Write>&);
  void recordViews(const ImportNode&, const std::vector<ImportArgument>& tensors);
  void addPossibleAlias(const ImportNode&, size_t result, const std::vector<ImportArgument>& tensors);
  void assign(uint32_t tensor, ImportValueRef value, size_t writer);
  void changed(uint32_t root, size_t writer);
  void carryInputs();
  void refuseChangedInputs();

  ImportFile& file_;
  ImportGraph& graph_;
  std::unordered_map<uint32_t, uint32_t> tensors_;     // later values, and results of in-place ops
  std::unordered_map<uint32_t, uint32_t> present_;     // by tensor
  std::unordered_map<uint32_t, View> views_;           // by tensor
  std::unordered_map<uint32_t, uint64_t> generations_; // by root
  std::unordered_map<uint32_t, Change> stale_;         // by root
  std::unordered_map<uint32_t, size_t> writers_;       // by root: the first
  std::vector<PossibleAlias> possibleAliases_;
};

// Each weight is a view of the base until one of them changes.
void Functionalizer::share(const SharedWeight& s) {
  if (s.views.empty()) possibleAliases_.push_back({s.base.index, s.weight.index, ""});
  uint32_t base = s.base.index;
  for (const ImportNode& n : s.views) {
    const uint32_t view = n.results[0].index;
    const uint64_t taken = view == s.weight.index ? 0 : UINT64_MAX; // no node has taken those between the two
    views_[view] = {base, n, 0, taken, true};
    base = view;
  }
}

// `tensors`: the arguments as the file has them, before they became present values.
void Functionalizer::recordViews(const ImportNode& n, const std::vector<ImportArgument>& tensors) {
  ImportNode named;
  named.arguments = tensors;
  for (size_t i = 0; i < n.results.size(); ++i) {
    const Aliasing aliasing = aliasingOf(file_, n, i);
    if (aliasing == Aliasing::Unknown) addPossibleAlias(n, i, tensors);
    if (aliasing != Aliasing::View) continue;
    const uint32_t base = tensorOf(viewedBy(named, i).index);
    if (isViewOf(base, n.results[i].index)) continue; // of a malformed file, whose names have two definitions
    views_[n.results[i].index] = {base, n, i, generations_[rootOf(base)]};
  }
}

void Functionalizer::addPossibleAlias(const ImportNode& n, size_t result,
                                      const std::vector<ImportArgument>& tensors) {
  const auto with = [&](ImportValueRef operand) {
    if (!operand.valid()) return;
    const std::optional<Type>&from = file_.values[operand.index].type,
          &to = file_.values[n.results[result].index].type;
    if (from && to && from->dtype != to->dtype) return; // a new tensor
    possibleAliases_.push_back(
        {rootOf(tensorOf(operand.index)), n.results[result].index, n.written.empty() ? n.target : n.written});
  };
  for (const ImportArgument& a : tensors) {
    if (const auto* ref = std::get_if<ImportValueRef>(&a.value)) with(*ref);
    if (const auto* list = std::get_if<std::vector<ImportValueRef>>(&a.value))
      for (const ImportValueRef ref : *list) with(ref);
  }
}

// Turns an op with out= arguments into one without.
bool Functionalizer::takeOuts(ImportNode& n, std::vector<Write>& writes) {
  const std::string functional = withoutOut(n.target);
  if (functional.empty() || n.arguments.size() < n.results.size()) return false;
  const size_t first = n.arguments.size() - n.results.size();
  for (size_t i = 0; i < n.results.size(); ++i) {
    const auto* out = std::get_if<ImportValueRef>(&n.arguments[first + i].value);
    if (!out || !out->valid()) {
      n.refused = "returns its results in arguments that are not tensors";
      return false;
    }
    if (n.results[i].valid()) writes.push_back({tensorOf(out->index), i});
  }
  n.arguments.resize(first);
  if (n.written.empty()) n.written = n.target;
  n.target = functional;
  return true;
}

void Functionalizer::updateStatistics(ImportNode& n, std::vector<Write>& writes) {
  const UpdatingOp* op = updatingOp(n);
  if (!op) return;
  if (n.written.empty()) n.written = n.target;
  n.target = op->functional;
  for (const std::string_view name : op->statistics) {
    if (name.empty()) continue;
    const ImportValueRef old = tensorArgument(n, name);
    writes.push_back({tensorOf(old.index), n.results.size()});
    n.results.push_back(fresh(old.index));
  }
}

// Gives the node the name of the op that changes nothing. Returns what it changed.
std::vector<Functionalizer::Write> Functionalizer::writesOf(ImportNode& n) {
  std::vector<Write> writes;
  if (takeOuts(n, writes)) {
    for (const Write& w : writes) tensors_[n.results[w.result].index] = w.tensor;
    return writes;
  }
  updateStatistics(n, writes);
  const ImportValueRef self = tensorArgument(n, "self");
  const std::string functional = functionalName(n.target);
  if (functional.empty() || !self.valid() || n.results.size() != 1 || !n.results[0].valid()) return writes;
  if (n.written.empty()) n.written = n.target;
  n.target = functional;
  if (aliasingOf(file_, n, 0) == Aliasing::View && changesShape(n.target)) return writes; // aten.t_
  tensors_[n.results[0].index] = tensorOf(self.index);
  writes.push_back({tensorOf(self.index), 0});
  return writes;
}

void Functionalizer::node(ImportNode n) {
  const std::vector<ImportArgument> tensors = n.arguments;
  const std::vector<Write> writes = writesOf(n);
  for (ImportArgument& a : n.arguments) resolve(a.value);
  if (writes.empty()) recordViews(n, tensors);
  const std::vector<ImportValueRef> results = n.results;
  graph_.nodes.push_back(std::move(n));
  const size_t writer = graph_.nodes.size() - 1;
  for (const Write& w : writes) assign(w.tensor, results[w.result], writer);
}

// The tensor has a new value, and so have those that it views.
void Functionalizer::assign(uint32_t tensor, ImportValueRef value, size_t writer) {
  present_[tensor] = value.index;
  const auto v = views_.find(tensor);
  if (v == views_.end()) return changed(tensor, writer);
  const uint32_t base = v->second.base;
  std::vector<ImportNode> back =
      writtenBack(file_, v->second.node, v->second.result, ImportValueRef{present(base)}, value);
  if (back.empty())
    return refuse(writer,
                  "changes " + nameOf(tensor) + ", a view of " + nameOf(base) + " by '" +
                      v->second.node.target + "', which is not written back to it",
                  v->second.stored);
  const ImportValueRef result = fresh(base);
  back.back().results = {result};
  for (ImportNode& n : back) {
    n.name = graph_.nodes[writer].name, n.location = graph_.nodes[writer].location;
    graph_.nodes.push_back(std::move(n));
  }
  assign(base, result, writer);
  views_[tensor].generation = generations_[rootOf(tensor)];
}

// Tensors that may share the root's memory no longer have a known value.
void Functionalizer::changed(uint32_t root, size_t writer) {
  ++generations_[root];
  writers_.try_emplace(root, writer);
  std::vector<uint32_t> next{root};
  for (size_t i = 0; i < next.size(); ++i)
    for (const PossibleAlias& s : possibleAliases_) {
      const uint32_t a = rootOf(s.a), b = rootOf(s.b);
      if (a != next[i] && b != next[i]) continue;
      const uint32_t other = a == next[i] ? b : a;
      if (std::ranges::find(next, other) != next.end()) continue;
      next.push_back(other);
      const std::string condition = s.op.empty() ? "" : " if '" + s.op + "' returns a view";
      stale_.try_emplace(
          other, Change{writer,
                        "changes " + nameOf(root) + ", which shares memory with " + nameOf(other) + condition,
                        s.op.empty()});
    }
}

void Functionalizer::refuseChangedInputs() {
  for (const ImportInput& input : graph_.inputs) {
    if (!input.value.valid()) continue;
    const auto writer = writers_.find(input.value.index);
    if (writer != writers_.end())
      refuse(writer->second, "changes " + nameOf(input.value.index) + ", an input of a nested graph");
  }
}

void Functionalizer::carryInputs() {
  std::vector<ImportOutput> carried;
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    if (!graph_.inputs[i].value.valid()) continue;
    const uint32_t input = graph_.inputs[i].value.index;
    if (const auto change = stale_.find(rootOf(tensorOf(input))); change != stale_.end())
      refuse(change->second, nameOf(change->first) + " is an argument, whose next value is unknown");
    const uint32_t now = present(tensorOf(input));
    const bool given =
        std::ranges::any_of(graph_.outputs, [&](const ImportOutput& o) { return o.carriedTo == i; });
    if (now == input || given) continue;
    ImportOutput& o = carried.emplace_back();
    o.value = ImportValueRef{now};
    o.carriedTo = i;
  }
  graph_.outputs.insert(graph_.outputs.begin(), carried.begin(), carried.end());
}

} // namespace

void makeFunctional(ImportFile& file, const std::vector<SharedWeight>& shared) {
  for (size_t i = 0; i < file.graphs.size(); ++i) {
    Functionalizer functionalizer(file, file.graphs[i]);
    if (i == 0)
      for (const SharedWeight& s : shared) functionalizer.share(s);
    functionalizer.run(i == 0);
  }
}

} // namespace dtc
