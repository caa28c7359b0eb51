#include "ModelWriter.h"
#include "dtc/Ops/Loop.h"
#include "dtc/Ops/OpName.h"
#include "dtc/Ops/record/Ops.h"
#include <algorithm>
#include <numeric>

namespace dtc {

Expr widened(ModelWriter& p, const std::string& name, Expr x) {
  const DType to = accumulationType(x.dtype());
  return x.dtype() == to ? x : p.named(name + "_" + std::string(dtypeName(to)), x.as(to));
}

ModelWriter::ModelWriter(const ModelSpec& spec)
    : spec_(spec), m_(standardOps()), func_(function(spec.mode == ModelMode::Train ? "loss" : "main")),
      body_(m_, m_[func_].body, ops_, diags_) {
  Mesh mesh{id("pod"), {}, {}};
  for (const ModelParallel::Axis& a : spec.parallel.axes) mesh.axes.push_back({id(a.name), a.size});
  if (!mesh.axes.empty()) mesh_ = m_.shardings.addMesh(std::move(mesh));
  setStage(0);
}

// --- shardings ---

Axes ModelWriter::axes(std::initializer_list<std::string_view> names) {
  Axes out;
  for (std::string_view a : names)
    if (spec_.parallel.has(a)) out.push_back({id(a)});
  return out;
}

Axes ModelWriter::kvAxes() {
  const int64_t devices = spec_.parallel.size("tp"), heads = spec_.kvHeads;
  if (heads >= devices) return tpAxes();
  const int64_t groups = std::gcd(devices, heads);
  return groups == 1 ? Axes() : Axes{{id("tp"), 1, groups}};
}

ShardingId ModelWriter::shardingOf(const ShardAxes& axes) {
  if (!mesh_.valid()) return {};
  Sharding s;
  s.mesh = mesh_;
  for (const Axes& dim : axes) {
    s.dims.emplace_back();
    for (const AxisRef& a : dim) s.dims.back().parts.push_back({a, 0});
  }
  return m_.shardings.intern(std::move(s));
}

Expr ModelWriter::shardedAs(Expr x, const ShardAxes& axes) {
  const Expr y = shard(x);
  m_[y].sharding = shardingOf(axes);
  return y;
}

// --- functions and arguments ---

FuncId ModelWriter::function(std::string_view name) {
  const FuncId f(static_cast<uint32_t>(m_.functions.size()));
  Function& made = m_.functions.emplace_back();
  made.name = id(name);
  made.body = m_.makeBlock();
  m_[made.body].parentFunc = f;
  m_.order.push_back(f);
  return f;
}

void ModelWriter::endFunction(FuncId f, std::vector<OpId> ops, std::vector<ValueId> returned) {
  m_[m_[f].body].ops = std::move(ops);
  m_[m_[f].body].yields = std::move(returned);
}

Expr ModelWriter::argument(const std::string& name, TypeId type, ShardingId sharding, bool isWeight) {
  const ValueId v = m_.makeBlockArg(m_[func_].body, type, id(name));
  m_[v].sharding = sharding;
  m_[func_].args.emplace_back().value = v;
  args_.push_back({v, isWeight, isWeight && (index_.valid() || !prefix_.empty())});
  return {*builder_, v};
}

Expr ModelWriter::input(const std::string& name, DType dtype, const std::vector<int64_t>& dims,
                        const ShardAxes& axes) {
  const std::vector<Dim> sizes(dims.begin(), dims.end());
  return argument(name, m_.tensorType(dtype, sizes), shardingOf(axes), false);
}

Expr ModelWriter::weight(const std::string& name, std::vector<int64_t> dims, const ShardAxes& axes) {
  ShardAxes kept = axes;
  // A vector is too small for sharding to pay off.
  const auto unsharded = std::ranges::find_if(kept, [](const Axes& a) { return a.empty(); });
  const Axes over = this->axes({spec_.zero == 3 ? "dp" : "fsdp"});
  const bool gathered = !over.empty() && dims.size() > 1 && unsharded != kept.end();
  if (gathered) *unsharded = over;
  if (index_.valid()) {
    kept.insert(kept.begin(), Axes());
    dims.insert(dims.begin(), spec_.layers);
  }
  const std::vector<Dim> sizes(dims.begin(), dims.end());
  Expr value = argument((index_.valid() ? "blocks_" : prefix_) + name, m_.tensorType(spec_.dtype, sizes),
                        shardingOf(kept), true);
  if (index_.valid()) value = named(name, index_select(value, Expr(*builder_, index_), {.dim = 0}));
  return gathered ? named(name + "_whole", shardedAs(value, axes)) : value;
}

// --- values ---

Expr ModelWriter::named(const std::string& name, Expr v) {
  m_[v].name = id(prefix_ + name);
  return v;
}

Expr ModelWriter::withSequenceSharding(const std::string& name, Expr x, const ShardAxes& axes) {
  return spec_.parallel.sequence ? named(name, shardedAs(x, axes)) : x;
}

// With pipeline stages, every op has its layer as an attribute: the pass `pipeline` divides them among devices.
void ModelWriter::setStage(int64_t stage) {
  if (spec_.parallel.has("pp")) body_.common = {{id("stage"), m_.attrs.integer(stage)}};
}

Expr ModelWriter::recomputed(ModelRecompute part, const std::function<Expr()>& body) {
  if (spec_.recompute != part) return body();
  Builder* const outer = builder_;
  return ops::recompute(*outer, [&](Builder& in) {
    builder_ = &in;
    const ValueId v = body();
    builder_ = outer;
    return std::vector{v};
  })[0];
}

Expr ModelWriter::layers(Expr x, const std::function<Expr(Expr)>& layer) {
  const auto block = [&](Expr in) {
    const Expr out = recomputed(ModelRecompute::Block, [&] { return layer(Expr(*builder_, in)); });
    return spec_.recompute == ModelRecompute::Block ? named("block", out) : out;
  };
  if (spec_.loop) {
    const Expr last = ops::forLoop(body_, 0, spec_.layers, {x}, [&](Builder& in, Expr i, auto stream) {
      builder_ = &in, index_ = i;
      m_[i].name = id("i"), m_[stream[0]].name = id("stream");
      const ValueId out = block(Expr(in, stream[0]));
      builder_ = &body_, index_ = {};
      return std::vector{out};
    })[0];
    return named("blocks", last);
  }
  for (int64_t i = 0; i < spec_.layers; ++i) {
    prefix_ = "blocks_" + std::to_string(i) + "_";
    setStage(i);
    x = block(x);
  }
  prefix_.clear();
  return x;
}

// --- the module ---

Module ModelWriter::module(Expr value, std::string_view label) {
  m_[func_].results.push_back({id(label), value.typeId(), {}, {}, {}, {}});
  endFunction(func_, std::move(ops_), {value});
  if (spec_.mode == ModelMode::Train) TrainStep(spec_, m_, func_, std::move(args_)).write();
  return std::move(m_);
}

} // namespace dtc
