#include "read/Functional.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace dtc {
namespace {

// How the value of a viewed tensor follows from that of the view.
enum class Inverse : uint8_t { None, Reshape, Same, Permute, Slice, Narrow, Select, Diagonal, Split, Unbind };
struct ViewOp {
  std::string_view name;
  Inverse inverse;
};
constexpr ViewOp kViews[] = {
    {"aten.view", Inverse::Reshape},
    {"aten.reshape", Inverse::Reshape},
    {"aten._unsafe_view", Inverse::Reshape},
    {"aten.view_as", Inverse::Reshape},
    {"aten.flatten", Inverse::Reshape},
    {"aten.unflatten", Inverse::Reshape},
    {"aten.squeeze", Inverse::Reshape},
    {"aten.unsqueeze", Inverse::Reshape},
    {"aten.alias", Inverse::Reshape},
    {"aten.detach", Inverse::Reshape},
    {"aten.detach_", Inverse::Reshape},
    {"aten.contiguous", Inverse::Reshape},
    {"aten.lift_fresh", Inverse::Reshape},
    {"aten.t", Inverse::Same},
    {"aten.transpose", Inverse::Same},
    {"aten.swapaxes", Inverse::Same},
    {"aten.mT", Inverse::Same},
    {"aten.permute", Inverse::Permute},
    {"aten.slice", Inverse::Slice},
    {"aten.narrow", Inverse::Narrow},
    {"aten.select", Inverse::Select},
    {"aten.diagonal", Inverse::Diagonal},
    {"aten.split", Inverse::Split},
    {"aten.split_with_sizes", Inverse::Split},
    {"aten.chunk", Inverse::Split},
    {"aten.tensor_split", Inverse::Split},
    {"aten.unbind", Inverse::Unbind},
    {"aten.expand", Inverse::None},
    {"aten.expand_as", Inverse::None},
    {"aten.broadcast_to", Inverse::None},
    {"aten.as_strided", Inverse::None},
    {"aten.unfold", Inverse::None},
    {"aten.movedim", Inverse::None},
    {"aten.real", Inverse::None},
    {"aten.imag", Inverse::None},
    {"aten.view_as_real", Inverse::None},
    {"aten.view_as_complex", Inverse::None},
    {"aten.hsplit", Inverse::None},
    {"aten.vsplit", Inverse::None},
};
// Ops that change running statistics, and what they then are called: their last results are the next statistics.
struct UpdatingOp {
  std::string_view name, functional;
  bool always; // else only while training
  std::array<std::string_view, 4> statistics;
};
constexpr std::array<std::string_view, 4> kMoments = {"running_mean", "running_var"},
                                          kObserved = {"running_min", "running_max", "scale", "zero_point"};
constexpr UpdatingOp kUpdating[] = {
    {"aten.batch_norm", "aten.batch_norm.functional", false, kMoments},
    {"aten.native_batch_norm", "aten._native_batch_norm_legit_functional.default", false, kMoments},
    {"aten._native_batch_norm_legit", "aten._native_batch_norm_legit_functional.default", false, kMoments},
    {"aten._batch_norm_with_update", "aten._batch_norm_with_update_functional.default", true, kMoments},
    {"aten.fused_moving_avg_obs_fake_quant", "aten.fused_moving_avg_obs_fake_quant.default", true, kObserved},
    {"aten._fused_moving_avg_obs_fq_helper", "aten._fused_moving_avg_obs_fq_helper_functional.default", true,
     kObserved},
};

std::string_view baseName(std::string_view target) {
  const size_t last = target.rfind('.');
  return last == target.npos || last == target.find('.') ? target : target.substr(0, last);
}

const ViewOp* viewOp(const ImportNode& n) {
  const auto* found = std::ranges::find(kViews, baseName(n.target), &ViewOp::name);
  return found == std::end(kViews) ? nullptr : found;
}

// "aten.add_.Tensor" -> "aten.add.Tensor"; empty for ops that change nothing.
std::string functionalName(const std::string& target) {
  const std::string_view base = baseName(target);
  if (!base.starts_with("aten.") || !base.ends_with('_') || base.ends_with("__")) return "";
  return std::string(base.substr(0, base.size() - 1)) + target.substr(base.size());
}

const ImportArgument* argument(const ImportNode& n, std::string_view name) {
  const auto found = std::ranges::find(n.arguments, name, &ImportArgument::name);
  return found == n.arguments.end() ? nullptr : &*found;
}

ImportValueRef tensorArgument(const ImportNode& n, std::string_view name) {
  const ImportArgument* a = argument(n, name);
  const auto* ref = a ? std::get_if<ImportValueRef>(&a->value) : nullptr;
  return ref ? *ref : ImportValueRef();
}

int64_t integerArgument(const ImportNode& n, std::string_view name, int64_t fallback) {
  const ImportArgument* a = argument(n, name);
  const auto* i = a ? std::get_if<ImportInt>(&a->value) : nullptr;
  return i && i->isNumber() ? i->number : fallback;
}

// Null: the node changes no statistics.
const UpdatingOp* updatingOp(const ImportNode& n) {
  const auto* op = std::ranges::find(kUpdating, baseName(n.target), &UpdatingOp::name);
  if (op == std::end(kUpdating)) return nullptr;
  const ImportArgument* training = argument(n, "training");
  const auto* flag = training ? std::get_if<bool>(&training->value) : nullptr;
  if (!op->always && (!flag || !*flag)) return nullptr;
  const bool all = std::ranges::all_of(
      op->statistics, [&](std::string_view name) { return name.empty() || tensorArgument(n, name).valid(); });
  return all ? op : nullptr;
}

// Where the user wrote an op.
struct Origin {
  std::string name, location;
};

class Functionalizer {
public:
  Functionalizer(ImportFile& file, ImportGraph& graph) : file_(file), graph_(graph) {}

  void run(bool carries) {
    std::vector<ImportNode> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (ImportNode& n : nodes) node(std::move(n));
    for (ImportOutput& o : graph_.outputs) resolve(o.value);
    if (carries) carryInputs();
  }

private:
  struct View {
    uint32_t base = 0; // the tensor that it views, by its first value
    ImportNode node;   // that takes it
    size_t result = 0;
    uint64_t generation = 0; // of the root's data, when it was taken
    bool transposed = false;
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
  // The tensor's present value. A view of changed data is taken again.
  uint32_t present(uint32_t tensor) {
    if (const auto v = views_.find(tensor);
        v != views_.end() && v->second.generation != generations_[rootOf(tensor)]) {
      ImportNode again = v->second.node;
      again.arguments.front().value = ImportValueRef{present(v->second.base)};
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

  void resolve(ImportValueRef& ref) {
    if (ref.valid()) ref.index = present(tensorOf(ref.index));
  }
  void resolve(ImportAttribute& a) {
    if (auto* ref = std::get_if<ImportValueRef>(&a)) resolve(*ref);
    if (auto* list = std::get_if<std::vector<ImportValueRef>>(&a))
      for (ImportValueRef& r : *list) resolve(r);
  }

  void node(ImportNode n);
  void recordView(const ImportNode& n, const ViewOp& op, uint32_t base);
  bool assign(uint32_t tensor, ImportValueRef value, const Origin& by);
  std::optional<ImportNode> inverse(const View&, uint32_t base, ImportValueRef value);
  [[nodiscard]] int64_t sizeAlong(ImportValueRef, int64_t dim) const;
  void carryInputs();

  ImportFile& file_;
  ImportGraph& graph_;
  std::unordered_map<uint32_t, uint32_t> tensors_;     // later values, and results of in-place ops
  std::unordered_map<uint32_t, uint32_t> present_;     // by tensor
  std::unordered_map<uint32_t, View> views_;           // by tensor
  std::unordered_map<uint32_t, uint64_t> generations_; // by root
};

void Functionalizer::recordView(const ImportNode& n, const ViewOp& op, uint32_t base) {
  const auto outer = views_.find(base);
  const bool transposed = (outer != views_.end() && outer->second.transposed) ||
                          op.inverse == Inverse::Same || op.inverse == Inverse::Permute ||
                          op.inverse == Inverse::None;
  const std::string_view name = baseName(n.target);
  const bool maybeCopy = name == "aten.reshape" || name == "aten.flatten" || name == "aten.contiguous";
  if (maybeCopy && outer != views_.end() && outer->second.transposed) return; // a copy
  for (size_t i = 0; i < n.results.size(); ++i)
    if (n.results[i].valid())
      views_[n.results[i].index] = {base, n, i, generations_[rootOf(base)], transposed};
}

void Functionalizer::node(ImportNode n) {
  const ImportValueRef self = tensorArgument(n, "self");
  const uint32_t tensor = self.valid() ? tensorOf(self.index) : 0;
  std::vector<std::pair<uint32_t, size_t>> updated; // statistics, results
  if (const UpdatingOp* op = updatingOp(n)) {
    n.target = op->functional;
    for (const std::string_view name : op->statistics) {
      if (name.empty()) continue;
      const ImportValueRef old = tensorArgument(n, name);
      updated.emplace_back(tensorOf(old.index), n.results.size());
      n.results.push_back(fresh(old.index));
    }
  }
  for (ImportArgument& a : n.arguments) resolve(a.value);
  const ViewOp* view = viewOp(n);
  const std::string functional = view ? "" : functionalName(n.target);
  if (view && self.valid() && !n.arguments.empty() && n.arguments.front().name == "self")
    recordView(n, *view, tensor);
  const bool changes = !functional.empty() && self.valid() && n.results.size() == 1 && n.results[0].valid();
  if (changes) n.target = functional;
  const std::vector<ImportValueRef> results = n.results;
  const Origin origin{n.name, n.location};
  graph_.nodes.push_back(std::move(n));
  const size_t at = graph_.nodes.size() - 1;
  if (changes) {
    tensors_[results[0].index] = tensor;
    if (!assign(tensor, results[0], origin)) graph_.nodes[at].target += " (of a view)";
  }
  for (const auto& [statistics, result] : updated) (void)assign(statistics, results[result], origin);
}

// The tensor has a new value, and so have those that it views. False if a view has no inverse.
bool Functionalizer::assign(uint32_t tensor, ImportValueRef value, const Origin& by) {
  present_[tensor] = value.index;
  const auto v = views_.find(tensor);
  if (v == views_.end()) {
    ++generations_[tensor];
    return true;
  }
  auto back = inverse(v->second, present(v->second.base), value);
  if (!back) return false;
  back->name = by.name, back->location = by.location;
  const ImportValueRef result = fresh(v->second.base);
  back->results = {result};
  graph_.nodes.push_back(*std::move(back));
  const uint32_t base = v->second.base;
  const bool good = assign(base, result, by);
  views_[tensor].generation = generations_[rootOf(tensor)];
  return good;
}

// The size of a dim, where it is declared as a number; else -1.
int64_t Functionalizer::sizeAlong(ImportValueRef v, int64_t dim) const {
  const std::optional<Type> t = v.valid() ? file_.values[v.index].type : std::nullopt;
  if (!t) return -1;
  const auto rank = static_cast<int64_t>(t->rank());
  const int64_t d = dim < 0 ? dim + rank : dim;
  if (d < 0 || d >= rank || !t->dims[static_cast<size_t>(d)].isStatic()) return -1;
  return t->dims[static_cast<size_t>(d)].value();
}

// The permutation that undoes that of a view; empty if it is malformed.
static std::vector<ImportInt> undone(const ImportNode& view) {
  const ImportArgument* dims = argument(view, "dims");
  const auto* list = dims ? std::get_if<std::vector<ImportInt>>(&dims->value) : nullptr;
  if (!list) return {};
  std::vector<ImportInt> back(list->size());
  const auto rank = static_cast<int64_t>(list->size());
  for (size_t i = 0; i < list->size(); ++i) {
    const int64_t d = (*list)[i].number < 0 ? (*list)[i].number + rank : (*list)[i].number;
    if (d < 0 || d >= rank) return {};
    back[static_cast<size_t>(d)] = ImportInt(static_cast<int64_t>(i));
  }
  return back;
}

std::optional<ImportNode> Functionalizer::inverse(const View& view, uint32_t base, ImportValueRef value) {
  const ViewOp* op = viewOp(view.node);
  ImportNode n;
  const auto scatter = [&](const char* target, std::initializer_list<std::string_view> kept) {
    n.target = target;
    n.arguments = {{"self", ImportValueRef{base}}, {"src", value}};
    for (const std::string_view name : kept)
      if (const ImportArgument* a = argument(view.node, name)) n.arguments.push_back(*a);
    return n;
  };
  const auto slice = [&](int64_t dim, int64_t start, int64_t length) {
    scatter("aten.slice_scatter.default", {});
    n.arguments.push_back({"dim", ImportInt(dim)});
    n.arguments.push_back({"start", ImportInt(start)});
    n.arguments.push_back({"end", ImportInt(start + length)});
    return n;
  };
  switch (op->inverse) {
  case Inverse::None: return std::nullopt;
  case Inverse::Reshape:
    n.target = "aten.reshape.default";
    n.arguments = {{"self", value}};
    return n;
  case Inverse::Same:
    n = view.node;
    n.arguments.front().value = value;
    return n;
  case Inverse::Permute:
    n.target = "aten.permute.default";
    n.arguments = {{"self", value}, {"dims", undone(view.node)}};
    return n;
  case Inverse::Slice: return scatter("aten.slice_scatter.default", {"dim", "start", "end", "step"});
  case Inverse::Select: return scatter("aten.select_scatter.default", {"dim", "index"});
  case Inverse::Diagonal: return scatter("aten.diagonal_scatter.default", {"offset", "dim1", "dim2"});
  case Inverse::Narrow: {
    const int64_t start = integerArgument(view.node, "start", -1),
                  length = integerArgument(view.node, "length", -1);
    if (start < 0 || length < 0) return std::nullopt;
    return slice(integerArgument(view.node, "dim", 0), start, length);
  }
  case Inverse::Unbind:
    scatter("aten.select_scatter.default", {"dim"});
    if (!argument(view.node, "dim")) n.arguments.push_back({"dim", ImportInt(0)});
    n.arguments.push_back({"index", ImportInt(static_cast<int64_t>(view.result))});
    return n;
  case Inverse::Split: {
    const int64_t dim = integerArgument(view.node, "dim", 0);
    int64_t start = 0;
    for (size_t i = 0; i < view.result; ++i) {
      const int64_t size = sizeAlong(view.node.results[i], dim);
      if (size < 0) return std::nullopt;
      start += size;
    }
    const int64_t size = sizeAlong(view.node.results[view.result], dim);
    return size < 0 ? std::nullopt : std::optional(slice(dim, start, size));
  }
  }
  return std::nullopt;
}

void Functionalizer::carryInputs() {
  std::vector<ImportOutput> carried;
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const uint32_t input = graph_.inputs[i].value.index;
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

void makeFunctional(ImportFile& file) {
  for (size_t i = 0; i < file.graphs.size(); ++i) Functionalizer(file, file.graphs[i]).run(i == 0);
}

} // namespace dtc
