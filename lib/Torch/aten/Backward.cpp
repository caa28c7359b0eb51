// Backward ops that are derived from the rows of their forward ops: the forward op becomes a function of its
// tensors, whose gradients autodiff computes.
#include "aten/Backward.h"
#include "aten/Aten.h"
#include "aten/Table.h"

#include "dtc/Ops/OpName.h"

#include <unordered_map>

namespace dtc {

bool aten::wants(const ImportContext& c, size_t i) {
  const ImportAttribute* a = c.attribute("output_mask");
  const auto* mask = a ? std::get_if<std::vector<bool>>(a) : nullptr;
  return i < c.node.results.size() && c.node.results[i].valid() &&
         (!mask || (i < mask->size() && (*mask)[i]));
}

namespace aten::backwards {
namespace {

struct Backward {
  std::string_view target, forward;
  std::vector<std::string_view> operands; // whose gradients are the results, in order
};

// Without "aten." and overloads.
const std::vector<Backward>& table() {
  static const std::vector<Backward> rows = {
      {"avg_pool2d_backward", "avg_pool2d", {"self"}},
      {"avg_pool3d_backward", "avg_pool3d", {"self"}},
      {"reflection_pad1d_backward", "reflection_pad1d", {"self"}},
      {"reflection_pad2d_backward", "reflection_pad2d", {"self"}},
      {"reflection_pad3d_backward", "reflection_pad3d", {"self"}},
      {"replication_pad1d_backward", "replication_pad1d", {"self"}},
      {"replication_pad2d_backward", "replication_pad2d", {"self"}},
      {"replication_pad3d_backward", "replication_pad3d", {"self"}},
      {"upsample_nearest1d_backward", "upsample_nearest1d", {"self"}},
      {"upsample_nearest2d_backward", "upsample_nearest2d", {"self"}},
      {"upsample_nearest3d_backward", "upsample_nearest3d", {"self"}},
      {"_upsample_nearest_exact1d_backward", "_upsample_nearest_exact1d", {"self"}},
      {"_upsample_nearest_exact2d_backward", "_upsample_nearest_exact2d", {"self"}},
      {"_upsample_nearest_exact3d_backward", "_upsample_nearest_exact3d", {"self"}},
      {"upsample_linear1d_backward", "upsample_linear1d", {"self"}},
      {"upsample_bilinear2d_backward", "upsample_bilinear2d", {"self"}},
      {"upsample_trilinear3d_backward", "upsample_trilinear3d", {"self"}},
      {"upsample_bicubic2d_backward", "upsample_bicubic2d", {"self"}},
      {"_upsample_bilinear2d_aa_backward", "_upsample_bilinear2d_aa", {"self"}},
      {"_upsample_bicubic2d_aa_backward", "_upsample_bicubic2d_aa", {"self"}},
      {"grid_sampler_2d_backward", "grid_sampler_2d", {"input", "grid"}},
      {"grid_sampler_3d_backward", "grid_sampler_3d", {"input", "grid"}},
  };
  return rows;
}

const Backward* backwardOf(std::string_view target) {
  for (const Backward& row : table())
    if (target.substr(0, target.find('.', 5)) == "aten." + std::string(row.target)) return &row;
  return nullptr;
}

// The values of a node inside of the function of its tensors.
class FunctionScope : public ImportScope {
public:
  explicit FunctionScope(ImportScope& outer) : outer_(outer) {}
  ValueId value(ImportValueRef ref) const override {
    const auto at = own.find(ref.index);
    return at == own.end() ? ValueId() : at->second;
  }
  bool reported(ImportValueRef ref) const override { return outer_.reported(ref); }
  std::vector<ValueId> inlined(ImportGraphRef, std::span<const ValueId>, Builder&) override {
    throw ImportError{"has a graph, and is differentiated"};
  }
  std::unordered_map<uint32_t, ValueId> own;

private:
  ImportScope& outer_;
};

// A function under construction; it is removed unless it is complete.
class NewFunction {
public:
  explicit NewFunction(Module& m) : m_(m), id_(static_cast<uint32_t>(m.functions.size())) {
    Function& f = m.functions.emplace_back();
    f.name = m.strings.intern("backward_" + std::to_string(id_.index));
    f.body = m.makeBlock();
    m[f.body].parentFunc = id_;
  }
  NewFunction(const NewFunction&) = delete;
  NewFunction& operator=(const NewFunction&) = delete;
  ~NewFunction() {
    if (!complete_) m_[id_].body = {};
  }
  [[nodiscard]] BlockId body() const { return m_[id_].body; }
  ValueId argument(TypeId type) {
    const ValueId v = m_.makeBlockArg(body(), type);
    m_[id_].args.push_back({v, {}, {}});
    return v;
  }
  StrId returns(Expr value, std::vector<OpId> ops) {
    m_[body()].ops = std::move(ops);
    m_[body()].yields = {value};
    m_[id_].results.push_back({{}, value.typeId(), {}, {}, {}, {}});
    m_.order.push_back(id_);
    complete_ = true;
    return m_[id_].name;
  }

private:
  Module& m_;
  FuncId id_;
  bool complete_ = false;
};

// Appends value_and_grad of a function, and returns the gradients.
std::vector<Expr> valueAndGradients(Builder& b, StrId callee, TypeId loss,
                                    const std::vector<ValueId>& operands, const std::vector<int64_t>& wrt) {
  Module& m = b.module;
  AttrList attrs{{m.strings.intern("wrt"), m.attrs.integers(wrt)}};
  attrs.insert(attrs.end(), b.common.begin(), b.common.end());
  const OpId op =
      m.makeOp(m.registry->find(OpName("value_and_grad")), operands, 0, std::move(attrs), 0, b.loc);
  m[op].callee = callee;
  m[op].parent = b.parent;
  std::vector<TypeId> types{loss};
  for (int64_t i : wrt) types.push_back(m[operands[static_cast<size_t>(i)]].type);
  m.makeResults(op, types);
  b.out.push_back(op);
  std::vector<Expr> out;
  for (size_t i = 0; i < wrt.size(); ++i) out.emplace_back(b, m.result(op, i + 1));
  return out;
}

} // namespace

std::vector<Expr> gradients(Builder& b, const std::vector<Expr>& operands, const std::vector<int64_t>& wrt,
                            Expr dy, const Differentiable& f) {
  Module& m = b.module;
  NewFunction made(m);
  std::vector<OpId> ops;
  Builder in(m, made.body(), ops, b.diags);
  in.forFile = b.forFile, in.loc = b.loc, in.common = b.common;
  std::vector<Expr> arguments;
  std::vector<ValueId> given;
  for (Expr x : operands) {
    arguments.emplace_back(in, made.argument(x.typeId()));
    given.push_back(x);
  }
  given.push_back(dy);
  const Expr weight(in, made.argument(dy.typeId()));
  const Expr y = f(in, arguments);
  // ops::sum needs a dim to sum over.
  const Expr same = y.as(dy.dtype());
  const Expr product = isComplex(dy.dtype())
                           ? ops::real(same) * ops::real(weight) + ops::imag(same) * ops::imag(weight)
                           : same * weight;
  const Expr loss = product.rank() == 0 ? product : ops::sum(product);
  const TypeId type = loss.typeId();
  return valueAndGradients(b, made.returns(loss, std::move(ops)), type, given, wrt);
}

namespace {

ImportResults fromForward(ImportContext& c) {
  const Backward* row = backwardOf(c.node.target);
  const ImportRow* forward = row ? atenRow("aten." + std::string(row->forward)) : nullptr;
  if (!forward) c.fail("has no forward op");
  const char* gradient = c.has("grad_output") ? "grad_output" : "grad";
  const Expr dy = c.tensor(gradient);
  ImportNode node = c.node;
  node.target = "aten." + std::string(row->forward);
  node.results = {c.as<ImportValueRef>(gradient, "a tensor")};
  std::erase_if(node.arguments, [&](const ImportArgument& a) { return a.name == gradient; });

  std::vector<Expr> operands;
  std::vector<uint32_t> refs;
  std::vector<int64_t> wrt;
  std::vector<size_t> results;
  const auto operand = [&](ImportValueRef ref, Expr x) {
    refs.push_back(ref.index), operands.push_back(x);
    return static_cast<int64_t>(refs.size()) - 1;
  };
  for (size_t i = 0; i < row->operands.size(); ++i) {
    const std::string name(row->operands[i]);
    int64_t position = 0;
    if (c.has(name.c_str())) {
      position = operand(c.as<ImportValueRef>(name.c_str(), "a tensor"), c.tensor(name.c_str()));
    } else { // A linear op, whose gradient does not need its operand.
      node.arguments.push_back({name, c.node.results.at(i)});
      position = operand(c.node.results.at(i), filled(c.b, c.result(i).dtype, c.result(i).dims, 0));
    }
    if (wants(c, i)) wrt.push_back(position), results.push_back(i);
  }
  const std::vector<Expr> found =
      gradients(c.b, operands, wrt, dy, [&](Builder& in, std::span<const Expr> xs) {
        FunctionScope scope(c.scope);
        for (size_t i = 0; i < xs.size(); ++i) scope.own[refs[i]] = xs[i];
        ImportContext inner(c.file, node, in, scope);
        ImportResults made = forward->convert(inner);
        c.countAsRead(inner);
        return made.values.at(0);
      });
  std::vector<Expr> out(row->operands.size());
  for (size_t i = 0; i < found.size(); ++i) out[results[i]] = found[i];
  return out;
}

} // namespace

ImportRows backwardRows() {
  static const std::vector<ImportRow> made = [] {
    static std::vector<std::string> names;
    std::vector<ImportRow> out;
    names.reserve(table().size());
    for (const Backward& row : table()) {
      names.push_back("aten." + std::string(row.target));
      out.push_back({names.back(), fromForward});
    }
    return out;
  }();
  return made;
}

} // namespace aten::backwards

ImportRows torchBackwardRows() { return aten::backwards::backwardRows(); }

} // namespace dtc
