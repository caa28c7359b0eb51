// Parsers of HLO attributes that list devices.
#include "dtc/Report/audit/XlaHlo.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Words.h"

#include <algorithm>

namespace dtc {

namespace {

// Reads "{1,2}", with or without its brackets.
std::optional<std::vector<int64_t>> numbers(std::string_view text, char open, char close) {
  text = trimmed(text);
  if (!text.empty() && text.front() == open) {
    if (text.back() != close || text.size() < 2) return std::nullopt;
    text = trimmed(text.substr(1, text.size() - 2));
  }
  std::vector<int64_t> out;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const auto n = parseNumber<int64_t>(trimmed(text.substr(0, comma)));
    if (!n) return std::nullopt;
    out.push_back(*n);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return out;
}

// "{{0,1},{2,3}}"
std::optional<std::vector<std::vector<int64_t>>> lists(std::string_view text) {
  text = trimmed(text);
  if (text.size() < 2 || text.front() != '{' || text.back() != '}') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::vector<std::vector<int64_t>> out;
  while (!(text = trimmed(text)).empty()) {
    if (text.front() == ',') {
      text.remove_prefix(1);
      continue;
    }
    const size_t end = text.find('}');
    if (text.front() != '{' || end == std::string_view::npos) return std::nullopt;
    auto one = numbers(text.substr(0, end + 1), '{', '}');
    if (!one) return std::nullopt;
    out.push_back(std::move(*one));
    text.remove_prefix(end + 1);
  }
  return out;
}

// "'a'=2,'b'=4": names and sizes. "'b','c':(2)4": names, with pre-size and size of a sub-axis.
struct NamedSize {
  std::string name;
  int64_t before = 1, size = 0; // 0: all of it
};
std::optional<std::vector<NamedSize>> namedSizes(std::string_view text) {
  std::vector<NamedSize> out;
  while (!(text = trimmed(text)).empty()) {
    const size_t end = text.find('\'', 1);
    if (text.front() != '\'' || end == std::string_view::npos) return std::nullopt;
    NamedSize one{std::string(text.substr(1, end - 1))};
    text.remove_prefix(end + 1);
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view sizes = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (sizes.starts_with(":(")) {
      sizes.remove_prefix(2);
      one.before = takeNumber<int64_t>(sizes).value_or(0);
      if (!sizes.starts_with(')') || one.before < 1) return std::nullopt;
    } else if (!sizes.starts_with("=")) {
      if (!trimmed(sizes).empty()) return std::nullopt;
      out.push_back(std::move(one));
      continue;
    }
    one.size = parseNumber<int64_t>(sizes.substr(1)).value_or(0);
    if (one.size < 1) return std::nullopt;
    out.push_back(std::move(one));
  }
  return out;
}

// The numbers 0 … of this shape, transposed: "[4,2]T(1,0)", or "[8]".
std::optional<std::vector<int64_t>> iotaOrder(std::string_view text, int64_t devices) {
  const size_t turn = text.find('T');
  const auto source = numbers(text.substr(0, turn), '[', ']');
  if (!source || source->empty() || source->size() > 16) return std::nullopt;
  for (int64_t n : *source)
    if (n < 1 || n > devices) return std::nullopt;
  const auto total = checkedProduct(*source);
  if (!total || *total > devices) return std::nullopt;
  std::vector<int64_t> order(source->size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  if (turn != std::string_view::npos) {
    auto perm = numbers(text.substr(turn + 1), '(', ')');
    if (!perm || perm->size() != order.size() ||
        !std::is_permutation(perm->begin(), perm->end(), order.begin()))
      return std::nullopt;
    order = *perm;
  }
  std::vector<int64_t> strides(source->size(), 1);
  for (size_t i = strides.size(); i-- > 1;) strides[i - 1] = strides[i] * (*source)[i];
  std::vector<int64_t> out;
  for (int64_t k = 0; k < *total; ++k) {
    int64_t rest = k, device = 0;
    for (size_t i = order.size(); i-- > 0;) {
      const auto dim = static_cast<size_t>(order[i]);
      device += rest % (*source)[dim] * strides[dim];
      rest /= (*source)[dim];
    }
    out.push_back(device);
  }
  return out;
}

// The devices of a mesh, by their device coordinate. The text between "mesh[…]" and its axes: nothing, ",
// device_ids=([4,2]T(1,0))" or ", device_ids=(0,2,1,3)".
std::optional<std::vector<int64_t>> meshOrder(std::string_view text, int64_t devices) {
  constexpr std::string_view kIds = "device_ids=(";
  text = trimmed(text);
  if (text.empty()) return iotaOrder("[" + std::to_string(devices) + "]", devices);
  if (text.front() == ',') text = trimmed(text.substr(1));
  if (!text.starts_with(kIds) || text.back() != ')') return std::nullopt;
  text = trimmed(text.substr(kIds.size(), text.size() - kIds.size() - 1));
  auto order = text.starts_with("[") ? iotaOrder(text, devices) : numbers(text, '(', ')');
  if (!order || order->size() != static_cast<size_t>(devices)) return std::nullopt;
  return order;
}

// "mesh['a'=2,'b'=4] {'b'}": groups of devices that differ along the named axes only.
std::optional<std::vector<std::vector<int64_t>>> meshGroups(std::string_view text, int64_t devices) {
  const size_t open = text.find('['), close = text.find(']'), braces = text.rfind('{');
  if (close == std::string_view::npos || braces == std::string_view::npos || braces < close ||
      text.back() != '}')
    return std::nullopt;
  const auto order = meshOrder(text.substr(close + 1, braces - close - 1), devices);
  const auto axes = namedSizes(text.substr(open + 1, close - open - 1));
  const auto wanted = namedSizes(text.substr(braces + 1, text.size() - braces - 2));
  if (!order || !axes || !wanted || axes->empty() || wanted->size() > 64) return std::nullopt;
  int64_t total = 1;
  for (const NamedSize& a : *axes) {
    if (a.size < 1 || a.size > devices / total) return std::nullopt;
    total *= a.size;
  }
  if (total != devices) return std::nullopt;
  std::vector<std::vector<int64_t>> out;
  std::map<int64_t, size_t> groupOf; // by the device with index 0 along all of them
  for (int64_t d = 0; d < devices; ++d) {
    int64_t first = d;
    for (const NamedSize& w : *wanted) {
      int64_t stride = devices, size = 0;
      for (const NamedSize& a : *axes) {
        stride /= a.size;
        if (a.name == w.name) {
          size = a.size;
          break;
        }
      }
      const int64_t part = w.size ? w.size : size, before = w.before;
      if (size == 0 || size % before != 0 || size / before % part != 0) return std::nullopt;
      const int64_t minor = stride * (size / before / part);
      first -= d / minor % part * minor;
    }
    auto [it, isNew] = groupOf.try_emplace(first, out.size());
    if (isNew) out.emplace_back();
    out[it->second].push_back((*order)[static_cast<size_t>(d)]);
  }
  return out;
}

// "[2,4]<=[4,2]T(1,0)": the numbers 0 … of the shape on the right, transposed, then reshaped to the left
// shape.
std::optional<std::vector<std::vector<int64_t>>> iotaGroups(std::string_view text, int64_t devices) {
  const size_t arrow = text.find("<=");
  if (arrow == std::string_view::npos) return std::nullopt;
  const auto shape = numbers(text.substr(0, arrow), '[', ']');
  const auto order = iotaOrder(trimmed(text.substr(arrow + 2)), devices);
  if (!shape || !order || shape->size() != 2 || (*shape)[0] < 1 || (*shape)[1] < 1) return std::nullopt;
  const auto wanted = checkedProduct(*shape);
  if (!wanted || *wanted != static_cast<int64_t>(order->size())) return std::nullopt;
  std::vector<std::vector<int64_t>> out(static_cast<size_t>((*shape)[0]));
  for (size_t k = 0; k < order->size(); ++k) out[k / static_cast<size_t>((*shape)[1])].push_back((*order)[k]);
  return out;
}

} // namespace

std::optional<std::vector<std::vector<int64_t>>> parseXlaGroups(std::string_view text, int64_t devices) {
  text = trimmed(text);
  auto groups = text.starts_with('[')       ? iotaGroups(text, devices)
                : text.starts_with("mesh[") ? meshGroups(text, devices)
                                            : lists(text);
  if (!groups) return std::nullopt;
  std::vector<bool> seen(static_cast<size_t>(devices));
  for (const std::vector<int64_t>& group : *groups)
    for (int64_t d : group) {
      if (d < 0 || d >= devices || seen[static_cast<size_t>(d)]) return std::nullopt;
      seen[static_cast<size_t>(d)] = true;
    }
  return groups;
}

std::optional<std::vector<std::pair<int64_t, int64_t>>> parseXlaPairs(std::string_view text) {
  auto all = lists(text);
  if (!all) return std::nullopt;
  std::vector<std::pair<int64_t, int64_t>> out;
  for (const std::vector<int64_t>& pair : *all) {
    if (pair.size() != 2) return std::nullopt;
    out.emplace_back(pair[0], pair[1]);
  }
  return out;
}

std::optional<std::vector<int64_t>> parseXlaInts(std::string_view text) { return numbers(text, '{', '}'); }

} // namespace dtc
