// Buckets: merges small collectives of one kind into one (as DistributedDataParallel's gradient buckets, Li
// et al. 2020), through a flat view of each and a concat.
#include "analysis/PartitionReshard.h"
#include "analysis/Within.h"
#include "collectives/CollectiveSteps.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Passes/analysis/Clone.h"
#include "dtc/Sharding/Reshard.h"
#include <algorithm>
#include <unordered_set>

namespace dtc {

namespace {

constexpr double kFullAt = 8;           // ratio of a full bucket's transfer time to the fixed cost
constexpr double kCopiesPerMessage = 4; // into the bucket and out of it, each a read and a write

// Two collectives can share a bucket if these are equal.
struct BucketKey {
  OpKind kind;
  DType dtype;
  std::vector<NamedAttr> attrs; // without `dim`, which the flat view replaces

  bool operator==(const BucketKey&) const = default;
  [[nodiscard]] size_t hash() const {
    size_t h = kind * 31u + static_cast<size_t>(dtype);
    for (const NamedAttr& a : attrs) h = h * 0x100000001b3ull ^ (a.name.index * 31ull + a.value.index);
    return h;
  }
};

struct Bucket {
  BucketKey key;
  std::vector<OpId> members;
  double transfer = 0; // seconds for the bytes alone, without fixed cost
};

// The sizes of the dim that a collective slices or concatenates, and of those around it; all static.
struct Extents {
  int64_t outer = 1, dim = 1, inner = 1;
  [[nodiscard]] int64_t count() const { return outer * dim * inner; }
};

class Bucketer {
public:
  Bucketer(Module& m, FuncId f, const OptimizeCollectivesOptions& options, Diagnostics& diags)
      : m_(m), options_(options), diags_(diags), kinds_(*m.registry), mesh_(meshOfFunction(m, f)) {}

  void run(BlockId block) {
    assign(block);
    std::vector<OpId> out;
    Builder b(m_, block, out, diags_);
    b.mesh = mesh_;
    for (OpId o : std::vector<OpId>(m_[block].ops)) {
      remap(o);
      const Bucket* bucket = bucketOf(o);
      if (!bucket) {
        out.push_back(o);
      } else if (bucket->members.back() == o) {
        b.loc = m_[o].loc;
        emit(*bucket, b);
      }
    }
    m_[block].ops = std::move(out);
    for (ValueId& v : m_[block].yields) v = map_(v);
    const std::vector<OpId> ops = m_[block].ops;
    for (OpId o : ops)
      for (uint32_t r = 0; r < m_[o].numRegions; ++r)
        if (!isIsolated(m_.record(o).regions)) run(m_.region(o, r));
  }

private:
  void remap(OpId o) {
    for (ValueId& v : m_.operands(o)) v = map_(v);
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
      for (ValueId& v : m_[m_.region(o, r)].yields) v = map_(v);
      for (OpId inner : m_[m_.region(o, r)].ops) remap(inner);
    }
  }

  const Bucket* bucketOf(OpId o) const {
    auto it = bucketOf_.find(o);
    return it == bucketOf_.end() || buckets_[it->second].members.size() < 2 ? nullptr : &buckets_[it->second];
  }

  // --- Bucket assignment ---

  // One walk: a bucket is closed when one of its results is read, or it is full. Its collective is placed at
  // its last member, so that no reader waits for an op that it did not wait for before. A collective that reads a
  // result of an open bucket (the second of two reductions over different axes) waits until its own result is
  // read, so that both kinds fill buckets.
  void assign(BlockId block) {
    buckets_.clear();
    bucketOf_.clear();
    open_.clear();
    std::vector<OpId> order, waiting;
    std::unordered_set<OpId> isWaiting;
    const auto take = [&](OpId o) {
      closeReadBy(o);
      order.push_back(o);
      if (takesPart(o)) join(o);
    };
    for (OpId o : m_[block].ops) {
      if (m_[o].numRegions != 0 || readsAny(o, isWaiting)) {
        for (OpId w : waiting) take(w);
        waiting.clear(), isWaiting.clear();
      }
      if (takesPart(o) && readsOpenBucket(o))
        waiting.push_back(o), isWaiting.insert(o);
      else
        take(o);
    }
    for (OpId w : waiting) take(w);
    m_[block].ops = std::move(order);
  }

  [[nodiscard]] bool readsAny(OpId o, const std::unordered_set<OpId>& ops) const {
    return !ops.empty() && std::ranges::any_of(m_.operands(o), [&](ValueId v) {
      return m_.definingOp(v).valid() && ops.contains(m_.definingOp(v));
    });
  }

  [[nodiscard]] bool readsOpenBucket(OpId o) const {
    return std::ranges::any_of(m_.operands(o), [&](ValueId v) {
      const OpId p = m_.definingOp(v);
      const auto it = p.valid() ? bucketOf_.find(p) : bucketOf_.end();
      if (it == bucketOf_.end()) return false;
      const auto open = open_.find(buckets_[it->second].key.hash());
      return open != open_.end() && open->second == it->second;
    });
  }

  // Adds a collective to the open bucket of its kind.
  void join(OpId o) {
    BucketKey key = keyOf(o);
    const size_t h = key.hash();
    auto it = open_.find(h);
    if (it == open_.end() || buckets_[it->second].key != key) {
      buckets_.push_back({std::move(key), {}, 0});
      it = open_.insert_or_assign(h, buckets_.size() - 1).first;
    }
    Bucket& bucket = buckets_[it->second];
    bucketOf_.emplace(o, it->second);
    bucket.members.push_back(o);
    const CollectivePrice price = priceOfOp(o);
    bucket.transfer += price.seconds - price.latencySeconds;
    if (isFull(bucket, price)) open_.erase(it);
  }

  void closeReadBy(OpId o) {
    for (ValueId v : m_.operands(o)) {
      const OpId p = m_.definingOp(v);
      auto it = p.valid() ? bucketOf_.find(p) : bucketOf_.end();
      if (it == bucketOf_.end()) continue;
      auto open = open_.find(buckets_[it->second].key.hash());
      if (open != open_.end() && open->second == it->second) open_.erase(open);
    }
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) {
      for (OpId inner : m_[m_.region(o, r)].ops) closeReadBy(inner);
      closeYields(m_.region(o, r));
    }
  }
  void closeYields(BlockId b) {
    for (ValueId v : m_[b].yields)
      if (const OpId p = m_.definingOp(v); p.valid())
        if (auto it = bucketOf_.find(p); it != bucketOf_.end())
          std::erase_if(open_, [&](auto& e) { return e.second == it->second; });
  }

  bool isFull(const Bucket& bucket, const CollectivePrice& price) const {
    if (options_.bucketBytes == 0) return bucket.transfer >= kFullAt * price.latencySeconds;
    int64_t bytes = 0;
    for (OpId o : bucket.members) bytes += bytesOf(m_.operand(o, 0));
    return bytes >= options_.bucketBytes;
  }

  // True if its share of a collective costs more than its copies, and its sizes allow a flat view.
  bool takesPart(OpId o) const {
    const OpKind k = m_[o].kind;
    if (k != kinds_.allReduce && k != kinds_.allGather && k != kinds_.reduceScatter) return false;
    if (!m_.typeOf(m_.operand(o, 0)).isStatic() || !m_.typeOf(m_.result(o)).isStatic()) return false;
    const int64_t in = bytesOf(m_.operand(o, 0)), out = bytesOf(m_.result(o));
    if (in == 0 || out == 0) return false;
    const double copies =
        kCopiesPerMessage / 2 * static_cast<double>(in + out) / options_.machine.memoryBytesPerSecond;
    // A bucket of two saves one collective at the cost of two members' copies.
    return 2 * copies <= priceOfOp(o).latencySeconds;
  }

  int64_t bytesOf(ValueId v) const {
    const Type& t = m_.typeOf(v);
    return t.numElements().value_or(INT64_MAX / 1024 / dtypeBytes(t.dtype)) * dtypeBytes(t.dtype);
  }

  CollectivePrice priceOfOp(OpId o) const {
    return priceOf(stepOf(m_.record(o).collective), axesOf(m_, o), bytesOf(m_.operand(o, 0)),
                   bytesOf(m_.result(o)), m_.shardings.mesh(mesh_), options_.machine);
  }

  BucketKey keyOf(OpId o) const {
    BucketKey key{m_[o].kind, m_.typeOf(m_.operand(o, 0)).dtype, withoutOrigin(m_, m_[o].attrs)};
    const StrId dim = m_.strings.find("dim");
    std::erase_if(key.attrs, [&](const NamedAttr& a) { return a.name == dim; });
    return key;
  }

  // --- One collective per bucket ---

  void emit(const Bucket& bucket, Builder& b) {
    const OpKind kind = m_[bucket.members[0]].kind;
    std::vector<ValueId> parts;
    for (OpId o : bucket.members) parts.push_back(flat(o, b));
    const bool rows = kind != kinds_.allReduce; // [devices or 1, elements], else [elements]
    const ValueId joined = ops::concat(b, parts, rows ? 1 : 0);
    const ValueId sent = send(bucket.key, joined, b);
    for (OpId o : bucket.members) addWithin(m_, m_.definingOp(sent), withinOf(m_, o));
    int64_t at = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const int64_t count = m_.typeOf(parts[i]).dims.back().value();
      unpack(bucket.members[i], sent, at, count, b);
      at += count;
    }
  }

  Extents extentsOf(OpId o) const {
    const Type& t = m_.typeOf(m_.operand(o, 0));
    Extents e;
    const auto dim = static_cast<size_t>(dimOf(m_, o));
    for (size_t d = 0; d < t.rank(); ++d)
      (d < dim ? e.outer : d == dim ? e.dim : e.inner) *= t.dims[d].value();
    return e;
  }

  ValueId reshape(ValueId v, std::span<const int64_t> shape, Builder& b) {
    if (m_.typeOf(v).staticShape() == std::vector(shape.begin(), shape.end())) return v;
    return ops::reshape(Expr(b, v), shape);
  }

  // The member's operand in the bucket, flat; for a reduce_scatter, one row per device with its shard.
  ValueId flat(OpId o, Builder& b) {
    const ValueId v = map_(m_.operand(o, 0));
    const int64_t count = *m_.typeOf(v).numElements();
    if (m_[o].kind == kinds_.allReduce) return reshape(v, std::array{count}, b);
    if (m_[o].kind == kinds_.allGather) return reshape(v, std::array{int64_t{1}, count}, b);
    const Extents e = extentsOf(o);
    const int64_t devices = m_.shardings.mesh(mesh_).sizeOf(axesOf(m_, o));
    ValueId rows = v;
    if (e.outer > 1) {
      rows = reshape(v, std::array{e.outer, devices, e.dim / devices * e.inner}, b);
      rows = ops::transpose(Expr(b, rows), {1, 0, 2});
    }
    return reshape(rows, std::array{devices, count / devices}, b);
  }

  ValueId send(const BucketKey& key, ValueId joined, Builder& b) {
    const OpId o = m_.makeOp(key.kind, std::array{joined}, 1, key.attrs, 0, b.loc);
    if (key.kind != kinds_.allReduce) m_.setAttr(o, "dim", b.integer(0));
    m_[o].parent = b.parent;
    Type t = m_.typeOf(joined);
    const int64_t devices = m_.shardings.mesh(mesh_).sizeOf(axesOf(m_, o));
    if (key.kind == kinds_.allGather) t.dims[0] = Dim(devices);
    if (key.kind == kinds_.reduceScatter) t.dims[0] = Dim(1);
    m_[m_.result(o)].type = m_.types.intern(std::move(t));
    b.out.push_back(o);
    return m_.result(o);
  }

  // The member's own result, extracted from the bucket's result.
  void unpack(OpId o, ValueId sent, int64_t at, int64_t count, Builder& b) {
    const bool rows = m_[o].kind != kinds_.allReduce;
    const std::vector<int64_t> shape = m_.typeOf(m_.result(o)).staticShape();
    b.loc = m_[o].loc;
    std::vector<int64_t> start = {at}, limit = {at + count};
    if (rows) start.insert(start.begin(), 0), limit.insert(limit.begin(), m_.typeOf(sent).dims[0].value());
    ValueId v = ops::slice(Expr(b, sent), {.start = start, .limit = limit});
    if (m_[o].kind == kinds_.allGather) {
      const Extents e = extentsOf(o);
      if (e.outer > 1) {
        v = reshape(v, std::array{limit[0], e.outer, e.dim * e.inner}, b);
        v = ops::transpose(Expr(b, v), {1, 0, 2});
      }
    }
    v = reshape(v, shape, b);
    m_[v].name = m_[m_.result(o)].name;
    map_.set(m_.result(o), v);
  }

  Module& m_;
  const OptimizeCollectivesOptions& options_;
  Diagnostics& diags_;
  CollectiveKinds kinds_;
  MeshId mesh_;
  std::vector<Bucket> buckets_;               // of the current block
  std::unordered_map<OpId, size_t> bucketOf_; // by member
  std::unordered_map<size_t, size_t> open_;   // by the key's hash
  ValueMap map_;
};

} // namespace

void bucketCollectives(Module& m, FuncId f, const OptimizeCollectivesOptions& options, Diagnostics& diags) {
  if (meshOfFunction(m, f).valid()) Bucketer(m, f, options, diags).run(m[f].body);
}

} // namespace dtc
