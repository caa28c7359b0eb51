#include "read/Storage.h"

#include "dtc/Support/Checked.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace dtc {
namespace {

struct Weight {
  ImportValueRef value;
  StoredLayout layout;
  int64_t end = 0; // the element after the last
  // The dims by falling strides, if the elements are dense in that order.
  std::optional<std::vector<size_t>> order;
};

// Of a layout that `isDeclared`.
int64_t elements(const StoredLayout& t) {
  return std::accumulate(t.sizes.begin(), t.sizes.end(), int64_t(1), std::multiplies<>());
}

std::optional<std::vector<size_t>> denseOrder(const StoredLayout& t) {
  std::vector<size_t> order(t.sizes.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::sort(order, [&](size_t a, size_t b) {
    const bool oneA = t.sizes[a] == 1, oneB = t.sizes[b] == 1; // whose strides say nothing
    if (oneA != oneB) return oneA;
    return oneA || t.strides[a] == t.strides[b] ? a < b : t.strides[a] > t.strides[b];
  });
  int64_t expected = 1;
  for (size_t i = order.size(); i-- > 0;) {
    if (t.sizes[order[i]] != 1 && t.strides[order[i]] != expected) return std::nullopt;
    expected *= t.sizes[order[i]];
  }
  return order;
}

Weight weightOf(ImportValueRef value, StoredLayout layout) {
  Weight w{value, std::move(layout)};
  w.end = w.layout.offset + 1;
  for (size_t i = 0; i < w.layout.sizes.size(); ++i) w.end += (w.layout.sizes[i] - 1) * w.layout.strides[i];
  w.order = denseOrder(w.layout);
  return w;
}

std::vector<ImportInt> integers(const std::vector<int64_t>& list) { return {list.begin(), list.end()}; }

// Whether the program declares the weight as the file has it. Errors of others are those of reading it.
bool isDeclared(const std::optional<Type>& type, const StoredLayout& t) {
  if (!type || type->dtype != t.dtype || type->rank() != t.sizes.size()) return false;
  for (size_t i = 0; i < t.sizes.size(); ++i)
    if (type->dims[i] != Dim(t.sizes[i])) return false;
  return checkedProduct(t.sizes).value_or(0) > 0;
}

// Builds the views of one weight.
class Chain {
public:
  Chain(ImportFile& file, const Weight& base, const Weight& weight)
      : file_(file), base_(base), weight_(weight), sizes_(base.layout.sizes), last_(base.value) {}

  std::vector<ImportNode> run() {
    const StoredLayout &from = base_.layout, &to = weight_.layout;
    if (from.sizes == to.sizes && from.strides == to.strides) {
      add("aten.alias.default", {}, sizes_);
      return finish();
    }
    permute(*base_.order);
    add("aten.reshape.default", {{"shape", integers({elements(from)})}}, {elements(from)});
    const int64_t begin = to.offset - from.offset, end = begin + elements(to);
    if (!weight_.order) {
      add("aten.as_strided.default",
          {{"size", integers(to.sizes)},
           {"stride", integers(to.strides)},
           {"storage_offset", ImportInt(begin)}},
          to.sizes);
      return finish();
    }
    if (elements(to) != elements(from))
      add("aten.slice.Tensor", {{"dim", ImportInt(0)}, {"start", ImportInt(begin)}, {"end", ImportInt(end)}},
          {elements(to)});
    std::vector<int64_t> inOrder;
    std::vector<size_t> back(weight_.order->size());
    for (size_t i = 0; i < back.size(); ++i) {
      inOrder.push_back(to.sizes[(*weight_.order)[i]]);
      back[(*weight_.order)[i]] = i;
    }
    add("aten.reshape.default", {{"shape", integers(inOrder)}}, inOrder);
    permute(back);
    return finish();
  }

private:
  void add(std::string target, std::vector<ImportArgument> arguments, std::vector<int64_t> sizes) {
    ImportNode& n = nodes_.emplace_back();
    n.target = std::move(target), n.arguments = std::move(arguments);
    n.arguments.insert(n.arguments.begin(), {"self", last_});
    ImportValue v;
    v.name = file_.values[base_.value.index].name;
    v.type = Type{};
    v.type->dtype = weight_.layout.dtype;
    for (const int64_t s : sizes) v.type->dims.emplace_back(s);
    file_.values.push_back(std::move(v));
    last_ = {static_cast<uint32_t>(file_.values.size() - 1)};
    n.results = {last_};
    sizes_ = std::move(sizes);
  }
  void permute(const std::vector<size_t>& order) {
    if (std::ranges::is_sorted(order)) return;
    std::vector<int64_t> dims(order.begin(), order.end()), sizes;
    for (const size_t d : order) sizes.push_back(sizes_[d]);
    add("aten.permute.default", {{"dims", integers(dims)}}, sizes);
  }
  std::vector<ImportNode> finish() {
    nodes_.back().results = {weight_.value};
    return std::move(nodes_);
  }

  ImportFile& file_;
  const Weight &base_, &weight_;
  std::vector<int64_t> sizes_; // of the last view
  ImportValueRef last_;
  std::vector<ImportNode> nodes_;
};

// Whether `base` has all elements of the weight.
bool covers(const Weight& base, const Weight& w) {
  return base.order && base.layout.dtype == w.layout.dtype && base.layout.offset <= w.layout.offset &&
         w.end <= base.end;
}

bool overlap(const Weight& a, const Weight& b) {
  const int64_t wideA = dtypeBytes(a.layout.dtype), wideB = dtypeBytes(b.layout.dtype);
  return a.layout.offset * wideA < b.end * wideB && b.layout.offset * wideB < a.end * wideA;
}

} // namespace

std::vector<SharedWeight> sharedWeights(ImportFile& file, const Pt2Archive& archive) {
  std::map<size_t, std::vector<Weight>> storages;
  for (const ImportInput& input : file.graphs[0].inputs) {
    if (!input.weight || !input.value.valid()) continue;
    auto layout = archive.layout(input.name);
    if (layout && isDeclared(file.values[input.value.index].type, *layout))
      storages[layout->storage].push_back(weightOf(input.value, *std::move(layout)));
  }
  std::vector<SharedWeight> out;
  for (auto& [storage, weights] : storages) {
    // Larger ones first: they are the bases of the others.
    std::ranges::sort(weights, [](const Weight& a, const Weight& b) {
      if (a.order.has_value() != b.order.has_value()) return a.order.has_value();
      const int64_t sizeA = elements(a.layout), sizeB = elements(b.layout);
      return sizeA == sizeB ? a.value.index < b.value.index : sizeA > sizeB;
    });
    std::vector<const Weight*> bases;
    for (const Weight& w : weights) {
      const auto base = std::ranges::find_if(bases, [&](const Weight* b) { return covers(*b, w); });
      if (base != bases.end()) {
        out.push_back({w.value, (*base)->value, Chain(file, **base, w).run()});
        continue;
      }
      for (const Weight* b : bases)
        if (overlap(*b, w)) out.push_back({w.value, b->value, {}});
      bases.push_back(&w);
    }
  }
  return out;
}

} // namespace dtc
