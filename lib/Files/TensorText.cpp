#include "dtc/Files/TensorText.h"

#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Utf8.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace dtc {
namespace {

std::string shortNumber(double v, int digits) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", digits, v);
  return text;
}

std::string shortNumber(const Tensor& t, int64_t i, int digits) {
  if (t.dtype() == DType::Bool) return t.getInt(i) ? "true" : "false";
  if (isComplex(t.dtype())) {
    const std::complex<double> z = t.getComplex(i);
    return "(" + shortNumber(z.real(), digits) + ", " + shortNumber(z.imag(), digits) + ")";
  }
  return isFloat(t.dtype()) ? shortNumber(t.getFloat(i), digits) : elementText(t, i);
}

using Lines = std::vector<std::string>;

struct Drawer {
  const Tensor& t;
  const TensorTextOptions& options;
  bool elide;
  std::vector<std::pair<int64_t, std::string>> cells = {}; // flat index -> text
  size_t width = 0;

  // Calls fn(i) for each shown index of dim d, and fn(-1) for omitted ones.
  template <class Fn> void each(size_t d, Fn&& fn) const {
    int64_t n = t.shape()[d];
    bool elided = elide && n > 2 * options.edge;
    for (int64_t i = 0; i < n; ++i) {
      if (elided && i == options.edge) {
        fn(int64_t(-1));
        i = n - options.edge;
      }
      fn(i);
    }
  }
  void measure(size_t d, int64_t base) {
    if (d == t.rank()) {
      cells.emplace_back(base, shortNumber(t, base, options.digits));
      width = std::max(width, cells.back().second.size());
      return;
    }
    each(d, [&](int64_t i) {
      if (i >= 0) measure(d + 1, base * t.shape()[d] + i);
    });
  }
  void draw(size_t d, size_t& next, std::string& out) const {
    if (d == t.rank()) {
      const std::string& text = cells[next++].second;
      out.append(width - text.size(), ' ');
      out += text;
      return;
    }
    bool last = d + 1 == t.rank(), first = true;
    out += '[';
    each(d, [&](int64_t i) {
      if (!first) {
        out += last ? ", " : ",";
        if (!last) out.append(t.rank() - d - 1, '\n'), out.append(d + 1, ' ');
      }
      first = false;
      if (i < 0)
        out += "...";
      else
        draw(d + 1, next, out);
    });
    out += ']';
  }

  // Prints the matrices of a tensor of rank 3 or more, from dim `d` on; `at` are the indices before: "0, 2,
  // ".
  Lines blocks(size_t d, const std::string& at, size_t& next) const {
    const size_t left = t.rank() - d;
    if (left == 2) {
      std::string text;
      draw(d, next, text);
      Lines lines = {"[" + at + ":, :]"};
      for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        const size_t first = begin == 0 ? 0 : begin + d; // one column for the bracket of the matrix itself
        lines.push_back(text.substr(first, end - first));
        begin = end + 1;
      }
      return lines;
    }
    std::vector<Lines> each_;
    each(d, [&](int64_t i) {
      each_.push_back(i < 0 ? Lines{"..."} : blocks(d + 1, at + std::to_string(i) + ", ", next));
    });
    return arranged(each_, left % 2 == 1 ? options.columns : 0);
  }

  // Side by side, as many as fit in a line of `columns`, then the next row.
  static Lines arranged(const std::vector<Lines>& blocks, size_t columns) {
    constexpr size_t kGap = 3;
    Lines out;
    size_t top = 0, width = 0; // of the current row of blocks
    for (const Lines& b : blocks) {
      size_t own = 0;
      for (const std::string& l : b) own = std::max(own, l.size());
      const bool sameLine = width > 0 && width + kGap + own <= columns;
      if (!sameLine && !out.empty()) out.emplace_back();
      if (!sameLine) top = out.size(), width = 0;
      const size_t from = sameLine ? width + kGap : 0;
      out.resize(std::max(out.size(), top + b.size()));
      for (size_t i = 0; i < b.size(); ++i) {
        if (out[top + i].size() < from) out[top + i].append(from - out[top + i].size(), ' ');
        out[top + i] += b[i];
      }
      width = from + own;
    }
    return out;
  }
};

} // namespace

std::string elementText(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::Bool) return t.getInt(i) ? "true" : "false";
  if (t.dtype() == DType::U64) return std::to_string(static_cast<uint64_t>(t.getInt(i)));
  if (isComplex(t.dtype())) {
    const std::complex<double> z = t.getComplex(i);
    const DType part = partType(t.dtype());
    return "(" + printFloat(z.real(), part) + ", " + printFloat(z.imag(), part) + ")";
  }
  if (!isFloat(t.dtype())) return std::to_string(t.getInt(i));
  return printFloat(t.getFloat(i), t.dtype());
}

std::string tensorText(const Tensor& t, const TensorTextOptions& options) {
  if (t.rank() == 0) return elementText(t, 0);
  // For a tensor without elements, the dims before the empty one are still printed.
  int64_t lists = 1;
  for (size_t d = 0; d + 1 < t.rank() && lists <= options.maxElements; ++d)
    lists = checkedMul(lists, std::max<int64_t>(t.shape()[d], 1)).value_or(INT64_MAX);
  Drawer drawer{t, options, t.numElements() > options.maxElements || lists > options.maxElements};
  drawer.measure(0, 0);
  std::string out;
  size_t next = 0;
  if (t.rank() <= 2 || t.numElements() == 0) {
    drawer.draw(0, next, out);
    return out;
  }
  for (const std::string& line : drawer.blocks(0, "", next)) out += (out.empty() ? "" : "\n") + line;
  return out;
}

// The end of the character at `at`, or `at` if it is shown as an escape: an invalid or a control character. C1
// controls, U+0080 to U+009F, are two bytes.
static size_t shownUntil(std::string_view row, size_t at) {
  const size_t length = utf8Length(row, at);
  const auto first = static_cast<unsigned char>(row[at]);
  const bool c1 = length == 2 && first == 0xc2 && static_cast<unsigned char>(row[at + 1]) < 0xa0;
  const bool control = (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f || c1;
  return at + (control ? 0 : length);
}

std::string bytesAsText(const Tensor& t) {
  const std::string_view all(reinterpret_cast<const char*>(t.bytes().data()), t.bytes().size());
  const size_t width = t.rank() == 0 ? 1 : static_cast<size_t>(t.shape().back());
  std::string out;
  for (size_t begin = 0; begin < all.size(); begin += width) {
    const std::string_view row = all.substr(begin, width);
    for (size_t at = 0; at < row.size();) {
      const size_t end = shownUntil(row, at);
      out += row.substr(at, end - at);
      if (end == at) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\x%02x",
                      static_cast<unsigned>(static_cast<unsigned char>(row[at])));
        out += escape;
      }
      at = std::max(end, at + 1);
    }
    if (!out.ends_with('\n')) out += '\n';
  }
  return out;
}

std::string deviceText(const Mesh& mesh, const StringTable& strings, int64_t coordinate) {
  std::string text;
  for (const MeshAxis& a : mesh.axes)
    text += (text.empty() ? "" : " ") + std::string(strings[a.name]) + "=" +
            std::to_string(mesh.indexAlong(AxisRef{a.name}, coordinate));
  return text.empty() ? "0" : text;
}

std::string printedText(Module& m, OpId op, std::span<const Tensor> values) {
  Diagnostics diags;
  OpQuery q = queryOf(m, op, diags);
  std::vector<std::string> texts;
  for (const Tensor& t : values) {
    int64_t first = q.has("first") ? q.intAttr("first") : -1;
    if (first < 0 || first >= t.numElements()) {
      texts.push_back(tensorText(t));
      continue;
    }
    Tensor head(t.dtype(), {first});
    std::copy_n(t.bytes().begin(), head.bytes().size(), head.bytes().begin());
    std::string text = tensorText(head);
    text.insert(text.size() - 1, first ? ", ..." : "...");
    texts.push_back(std::move(text));
  }
  std::string out;
  if (!q.has("format")) {
    for (size_t i = 0; i < texts.size(); ++i)
      out += (i ? "\n" : "") + printValueName(m, m.operand(op, i)) + " = " + texts[i];
    return out;
  }
  std::string_view format = q.textAttr("format");
  size_t next = 0;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format.substr(i, 2) == "{}" && next < texts.size()) {
      out += texts[next++];
      ++i;
    } else {
      out += format[i];
    }
  }
  return out;
}

} // namespace dtc
