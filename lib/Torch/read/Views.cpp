#include "read/Views.h"

#include <algorithm>

namespace dtc {
namespace {

// How the value of a viewed tensor follows from that of the view.
enum class Inverse : uint8_t {
  None,
  Reshape,
  Same, // the op is its own inverse
  Permute,
  Move,
  Slice,
  Narrow,
  Select,
  Diagonal,
  Split,
  Unbind,
  Bits, // another dtype of the same bytes
  Real,
  Imaginary,
  AsReal,
  AsComplex,
};

// When a result is a view; else it is a new tensor.
enum class When : uint8_t {
  Always,
  SameStrides, // as the operand has
  Fits,        // the strides of the operand allow the shape
  Converted,   // to the dtype, device and memory format that the operand has
  SameDType,
  SameShape,
  Real,        // of a real operand
  NotTraining, // or probability 0
  NotKnown,    // by the node
};

struct ViewOp {
  std::string_view name;
  Inverse inverse = Inverse::None;
  When when = When::Always;
};

// All ops whose schema has a result that aliases an operand, without those of sparse and nested tensors, and
// those that return an operand or a view of one although their schema does not say so.
constexpr ViewOp kViews[] = {
    {"aten.view", Inverse::Reshape},
    {"aten.view.dtype", Inverse::Bits},
    {"aten._unsafe_view", Inverse::Reshape},
    {"aten._reshape_alias", Inverse::Reshape},
    {"aten.view_as", Inverse::Reshape},
    {"aten.reshape", Inverse::Reshape, When::Fits},
    {"aten.reshape_as", Inverse::Reshape, When::Fits},
    {"aten.flatten", Inverse::Reshape, When::Fits},
    {"aten.ravel", Inverse::Reshape, When::Fits},
    {"aten.unflatten", Inverse::Reshape},
    {"aten.squeeze", Inverse::Reshape},
    {"aten.unsqueeze", Inverse::Reshape},
    {"aten.atleast_1d", Inverse::Reshape},
    {"aten.atleast_2d", Inverse::Reshape},
    {"aten.atleast_3d", Inverse::Reshape},
    {"aten.alias", Inverse::Reshape},
    {"aten.detach", Inverse::Reshape},
    {"aten.positive", Inverse::Reshape},
    {"aten.lift_fresh", Inverse::Reshape},
    {"aten._fw_primal", Inverse::Reshape},
    {"aten._make_dual", Inverse::Reshape},
    {"aten.pin_memory", Inverse::Reshape, When::NotKnown},
    {"aten.contiguous", Inverse::Reshape, When::SameStrides},
    {"aten.to", Inverse::Reshape, When::Converted},
    {"aten.cpu", Inverse::Reshape, When::Converted},
    {"aten.cuda", Inverse::Reshape, When::Converted},
    {"aten.type_as", Inverse::Reshape, When::Converted},
    {"aten._autocast_to_full_precision", Inverse::Reshape, When::SameDType},
    {"aten._autocast_to_reduced_precision", Inverse::Reshape, When::SameDType},
    {"aten.sum_to_size", Inverse::Reshape, When::SameShape},
    {"aten._grad_sum_to_size", Inverse::Reshape, When::SameShape},
    {"aten.resolve_conj", Inverse::Reshape, When::Real},
    {"aten.resolve_neg", Inverse::Reshape, When::NotKnown},
    {"aten.conj_physical", Inverse::Reshape, When::Real},
    {"aten.dropout", Inverse::Reshape, When::NotTraining},
    {"aten.feature_dropout", Inverse::Reshape, When::NotTraining},
    {"aten.alpha_dropout", Inverse::Reshape, When::NotTraining},
    {"aten.feature_alpha_dropout", Inverse::Reshape, When::NotTraining},
    {"aten.t", Inverse::Same},
    {"aten.transpose", Inverse::Same},
    {"aten.swapaxes", Inverse::Same},
    {"aten.swapdims", Inverse::Same},
    {"aten.mT", Inverse::Same},
    {"aten.mH", Inverse::Same},
    {"aten.matrix_H", Inverse::Same},
    {"aten.adjoint", Inverse::Same},
    {"aten.numpy_T", Inverse::Same},
    {"aten.conj", Inverse::Same},
    {"aten._conj", Inverse::Same},
    {"aten._neg_view", Inverse::Same},
    {"aten.permute", Inverse::Permute},
    {"aten.movedim", Inverse::Move},
    {"aten.moveaxis", Inverse::Move},
    {"aten.slice", Inverse::Slice},
    {"aten.narrow", Inverse::Narrow},
    {"aten.select", Inverse::Select},
    {"aten.diagonal", Inverse::Diagonal},
    {"aten.linalg_diagonal", Inverse::Diagonal},
    {"aten.split", Inverse::Split},
    {"aten.split_with_sizes", Inverse::Split},
    {"aten.chunk", Inverse::Split},
    {"aten.tensor_split", Inverse::Split},
    {"aten.hsplit", Inverse::Split},
    {"aten.vsplit", Inverse::Split},
    {"aten.dsplit", Inverse::Split},
    {"aten.unsafe_split", Inverse::Split},
    {"aten.unsafe_split_with_sizes", Inverse::Split},
    {"aten.unsafe_chunk", Inverse::Split},
    {"aten.unbind", Inverse::Unbind},
    {"aten.real", Inverse::Real},
    {"aten.imag", Inverse::Imaginary},
    {"aten.view_as_real", Inverse::AsReal},
    {"aten.view_as_complex", Inverse::AsComplex},
    {"aten.expand"},
    {"aten.expand_as"},
    {"aten.broadcast_to"},
    {"aten.broadcast_tensors"},
    {"aten.meshgrid"},
    {"aten.as_strided"},
    {"aten.unfold"},
    {"aten.slice_inverse"},
    {"aten.einsum", Inverse::None, When::NotKnown},
    {"aten.align_tensors", Inverse::None, When::NotKnown},
    {"aten.cartesian_prod", Inverse::None, When::NotKnown},
    {"aten.chain_matmul", Inverse::None, When::NotKnown},
    {"aten.combinations", Inverse::None, When::NotKnown},
    {"aten.linalg_multi_dot", Inverse::None, When::NotKnown},
    {"aten.linalg_matrix_power", Inverse::None, When::NotKnown},
    {"aten.matrix_power", Inverse::None, When::NotKnown},
    {"aten.native_dropout", Inverse::None, When::NotKnown},
};

const ViewOp* viewOp(const ImportNode& n) {
  for (const std::string_view name : {std::string_view(n.target), withoutOverload(n.target)})
    if (const auto* found = std::ranges::find(kViews, name, &ViewOp::name); found != std::end(kViews))
      return found;
  return nullptr;
}

template <class T> const T* argumentAs(const ImportNode& n, std::string_view name) {
  const ImportArgument* a = argumentOf(n, name);
  return a ? std::get_if<T>(&a->value) : nullptr;
}

std::optional<int64_t> integerArgument(const ImportNode& n, std::string_view name) {
  const auto* i = argumentAs<ImportInt>(n, name);
  return i && i->isNumber() ? std::optional(i->number) : std::nullopt;
}

std::optional<std::vector<int64_t>> staticSizes(const ImportValue& v) {
  if (!v.type) return std::nullopt;
  std::vector<int64_t> out;
  for (const Dim& d : v.type->dims) {
    if (!d.isStatic()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}

// --- when ---

// Where the dims before `d` begin another run of elements at equal distances.
bool beginsRun(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, size_t d,
               int64_t expected) {
  return d == 0 || (sizes[d - 1] != 1 && strides[d - 1] != expected);
}

// As at::detail::computeStride: whether a tensor of these strides has a view of the shape.
bool fits(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
          const std::vector<int64_t>& shape) {
  if (std::ranges::find(sizes, 0) != sizes.end() || sizes.empty()) return true;
  size_t left = shape.size();
  int64_t stride = strides.back(), elements = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    elements *= sizes[d];
    if (!beginsRun(sizes, strides, d, elements * stride)) continue;
    int64_t taken = 1;
    while (left > 0 && (taken < elements || shape[left - 1] == 1)) taken *= shape[--left];
    if (taken != elements) return false;
    if (d > 0) stride = strides[d - 1], elements = 1;
  }
  return left == 0;
}

Aliasing viewIf(bool view) { return view ? Aliasing::View : Aliasing::None; }

Aliasing reshapes(const ImportValue& from, const ImportValue& to) {
  const auto sizes = staticSizes(from), shape = staticSizes(to);
  if (from.contiguous) return Aliasing::View;
  if (!sizes || !shape || !from.strides) return Aliasing::Unknown;
  std::vector<int64_t> strides;
  for (const ImportInt& s : *from.strides) {
    if (!s.isNumber()) return Aliasing::Unknown;
    strides.push_back(s.number);
  }
  return viewIf(fits(*sizes, strides, *shape));
}

bool equal(const ImportInt& a, const ImportInt& b) {
  return a.number == b.number && a.size == b.size && a.expression == b.expression;
}

Aliasing sameStrides(const ImportValue& from, const ImportValue& to) {
  if (!from.strides || !to.strides || !from.type || from.strides->size() != to.strides->size())
    return Aliasing::Unknown;
  for (size_t i = 0; i < from.strides->size(); ++i) {
    const Dim& size = from.type->dims[i];
    if (!equal((*from.strides)[i], (*to.strides)[i]) && !(size.isStatic() && size.value() <= 1))
      return Aliasing::None;
  }
  return Aliasing::View;
}

Aliasing converts(const ImportNode& n, const ImportValue& from, const ImportValue& to) {
  const auto* copy = argumentAs<bool>(n, "copy");
  if ((copy && *copy) || from.type->dtype != to.type->dtype || from.device != to.device)
    return Aliasing::None;
  return sameStrides(from, to);
}

Aliasing dropsOut(const ImportNode& n) {
  const auto *training = argumentAs<bool>(n, "train"), *flag = argumentAs<bool>(n, "training");
  if (!training) training = flag;
  const auto* p = argumentAs<double>(n, "p");
  if (!training || (*training && !p)) return Aliasing::Unknown;
  return viewIf(!*training || *p == 0);
}

} // namespace

const ImportArgument* argumentOf(const ImportNode& n, std::string_view name) {
  const auto found = std::ranges::find(n.arguments, name, &ImportArgument::name);
  return found == n.arguments.end() ? nullptr : &*found;
}

std::string_view withoutOverload(std::string_view target) {
  const size_t last = target.rfind('.');
  return last == target.npos || last == target.find('.') ? target : target.substr(0, last);
}

ImportValueRef viewedBy(const ImportNode& n, size_t result) {
  if (n.arguments.empty()) return {};
  const ImportAttribute& first = n.arguments.front().value;
  if (const auto* one = std::get_if<ImportValueRef>(&first)) return *one;
  const auto* list = std::get_if<std::vector<ImportValueRef>>(&first);
  return list && result < list->size() ? (*list)[result] : ImportValueRef();
}

void setViewed(ImportNode& n, size_t result, ImportValueRef to) {
  ImportAttribute& first = n.arguments.front().value;
  if (auto* list = std::get_if<std::vector<ImportValueRef>>(&first))
    (*list)[result] = to;
  else
    first = to;
}

Aliasing aliasingOf(const ImportFile& file, const ImportNode& n, size_t result) {
  const ViewOp* op = viewOp(n);
  if (!op || !n.results[result].valid()) return Aliasing::None;
  const ImportValueRef viewed = viewedBy(n, result);
  const auto* operands = argumentAs<std::vector<ImportValueRef>>(n, "tensors");
  if (op->name == "aten.einsum" && operands && operands->size() > 1) return Aliasing::None; // a product
  if (op->when == When::NotKnown || !viewed.valid()) return Aliasing::Unknown;
  if (op->when == When::Always) return Aliasing::View;
  if (op->when == When::NotTraining) return dropsOut(n);
  const ImportValue &from = file.values[viewed.index], &to = file.values[n.results[result].index];
  if (!from.type || !to.type) return Aliasing::Unknown;
  switch (op->when) {
  case When::SameStrides: return sameStrides(from, to);
  case When::Fits: return reshapes(from, to);
  case When::Converted: return converts(n, from, to);
  case When::SameDType: return viewIf(from.type->dtype == to.type->dtype);
  case When::SameShape: return viewIf(from.type->dims == to.type->dims);
  case When::Real:
    if (!isComplex(from.type->dtype)) return Aliasing::View;
    return op->name == "aten.conj_physical" ? Aliasing::None : Aliasing::Unknown;
  default: return Aliasing::Unknown;
  }
}

// --- writing back ---

namespace {

// The size of a dim, where it is declared as a number.
std::optional<int64_t> sizeAlong(const ImportFile& file, ImportValueRef v, int64_t dim) {
  const std::optional<Type> t = v.valid() ? file.values[v.index].type : std::nullopt;
  if (!t) return std::nullopt;
  const auto rank = static_cast<int64_t>(t->rank());
  const int64_t d = dim < 0 ? dim + rank : dim;
  if (d < 0 || d >= rank || !t->dims[static_cast<size_t>(d)].isStatic()) return std::nullopt;
  return t->dims[static_cast<size_t>(d)].value();
}

// The permutation that undoes that of a view; empty if it is malformed.
std::vector<ImportInt> undone(const ImportNode& view) {
  const auto* list = argumentAs<std::vector<ImportInt>>(view, "dims");
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

class WriteBack {
public:
  WriteBack(ImportFile& file, const ImportNode& view, size_t result, ImportValueRef base,
            ImportValueRef value)
      : file_(file), view_(view), result_(result), base_(base), value_(value) {}

  std::vector<ImportNode> run();

private:
  using Nodes = std::vector<ImportNode>;
  static Nodes one(std::string target, std::vector<ImportArgument> arguments) {
    ImportNode n;
    n.target = std::move(target), n.arguments = std::move(arguments);
    return {std::move(n)};
  }
  Nodes reshape() { return one("aten.reshape.default", {{"self", value_}}); }
  Nodes scatter(const char* target, std::initializer_list<std::string_view> kept) {
    Nodes n = one(target, {{"self", base_}, {"src", value_}});
    for (const std::string_view name : kept)
      if (const ImportArgument* a = argumentOf(view_, name)) n[0].arguments.push_back(*a);
    return n;
  }
  Nodes slice(int64_t dim, int64_t start, int64_t length) {
    return one("aten.slice_scatter.default", {{"self", base_},
                                              {"src", value_},
                                              {"dim", ImportInt(dim)},
                                              {"start", ImportInt(start)},
                                              {"end", ImportInt(start + length)}});
  }
  Nodes same();
  Nodes move();
  Nodes narrow();
  Nodes diagonal();
  Nodes split();
  Nodes unbind();
  Nodes part(bool real);
  Nodes unrepeated();

  ImportFile& file_;
  const ImportNode& view_;
  size_t result_;
  ImportValueRef base_, value_;
};

WriteBack::Nodes WriteBack::same() {
  Nodes n{view_};
  n[0].arguments.front().value = value_;
  n[0].results.clear();
  return n;
}

WriteBack::Nodes WriteBack::move() {
  const ImportArgument *from = argumentOf(view_, "source"), *to = argumentOf(view_, "destination");
  if (!from || !to) return {};
  return one(view_.target, {{"self", value_}, {"source", to->value}, {"destination", from->value}});
}

WriteBack::Nodes WriteBack::narrow() {
  const auto start = integerArgument(view_, "start"), length = integerArgument(view_, "length");
  const int64_t dim = integerArgument(view_, "dim").value_or(0);
  if (!start || !length) return {};
  if (*start >= 0) return slice(dim, *start, *length);
  const auto size = sizeAlong(file_, base_, dim);
  return size ? slice(dim, *start + *size, *length) : Nodes();
}

WriteBack::Nodes WriteBack::diagonal() {
  Nodes n = scatter("aten.diagonal_scatter.default", {"offset", "dim1", "dim2"});
  if (withoutOverload(view_.target) != "aten.linalg_diagonal") return n;
  for (const auto& [name, fallback] : {std::pair("dim1", -2), std::pair("dim2", -1)})
    if (!argumentOf(view_, name)) n[0].arguments.push_back({name, ImportInt(fallback)});
  return n;
}

WriteBack::Nodes WriteBack::split() {
  const std::string_view name = withoutOverload(view_.target);
  int64_t dim = integerArgument(view_, "dim").value_or(0);
  if (name == "aten.vsplit") dim = 0;
  if (name == "aten.dsplit") dim = 2;
  if (name == "aten.hsplit") {
    const std::optional<Type>& t = file_.values[base_.index].type;
    if (!t) return {};
    dim = t->rank() == 1 ? 0 : 1;
  }
  int64_t start = 0;
  for (size_t i = 0; i < result_; ++i) {
    const auto size = sizeAlong(file_, view_.results[i], dim);
    if (!size) return {};
    start += *size;
  }
  const auto size = sizeAlong(file_, view_.results[result_], dim);
  return size ? slice(dim, start, *size) : Nodes();
}

WriteBack::Nodes WriteBack::unbind() {
  Nodes n = scatter("aten.select_scatter.default", {"dim"});
  if (!argumentOf(view_, "dim")) n[0].arguments.push_back({"dim", ImportInt(0)});
  n[0].arguments.push_back({"index", ImportInt(static_cast<int64_t>(result_))});
  return n;
}

// The other part of a complex tensor is kept.
WriteBack::Nodes WriteBack::part(bool real) {
  const std::optional<Type>& t = file_.values[base_.index].type;
  if (!t) return {};
  if (!isComplex(t->dtype)) return reshape();
  Nodes out = one(real ? "aten.imag.default" : "aten.real.default", {{"self", base_}});
  file_.values.push_back(ImportValue(file_.values[view_.results[result_].index]));
  const ImportValueRef kept{static_cast<uint32_t>(file_.values.size() - 1)};
  out[0].results = {kept};
  out.push_back(
      one("aten.complex.default", {{"real", real ? value_ : kept}, {"imag", real ? kept : value_}})[0]);
  return out;
}

// Ops that can repeat elements, where they repeat none.
WriteBack::Nodes WriteBack::unrepeated() {
  const std::string_view name = withoutOverload(view_.target);
  const bool broadcasts =
      name.starts_with("aten.expand") || name.starts_with("aten.broadcast") || name == "aten.meshgrid";
  const auto from = staticSizes(file_.values[base_.index]), to = staticSizes(file_.values[value_.index]);
  if (!broadcasts || !from || !to) return {};
  const auto count = [](const std::vector<int64_t>& sizes) {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    return n;
  };
  return count(*from) == count(*to) ? reshape() : Nodes();
}

WriteBack::Nodes WriteBack::run() {
  switch (viewOp(view_)->inverse) {
  case Inverse::None: return unrepeated();
  case Inverse::Reshape: return reshape();
  case Inverse::Same: return same();
  case Inverse::Permute: return one("aten.permute.default", {{"self", value_}, {"dims", undone(view_)}});
  case Inverse::Move: return move();
  case Inverse::Slice: return scatter("aten.slice_scatter.default", {"dim", "start", "end", "step"});
  case Inverse::Narrow: return narrow();
  case Inverse::Select: return scatter("aten.select_scatter.default", {"dim", "index"});
  case Inverse::Diagonal: return diagonal();
  case Inverse::Split: return split();
  case Inverse::Unbind: return unbind();
  case Inverse::Bits: return one("aten.view.dtype", {{"self", value_}});
  case Inverse::Real: return part(true);
  case Inverse::Imaginary: return part(false);
  case Inverse::AsReal: return one("aten.view_as_complex.default", {{"self", value_}});
  case Inverse::AsComplex: return one("aten.view_as_real.default", {{"self", value_}});
  }
  return {};
}

} // namespace

std::vector<ImportNode> writtenBack(ImportFile& file, const ImportNode& view, size_t result,
                                    ImportValueRef base, ImportValueRef value) {
  return WriteBack(file, view, result, base, value).run();
}

} // namespace dtc
