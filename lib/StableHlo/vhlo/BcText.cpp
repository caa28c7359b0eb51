#include "vhlo/BcText.h"

#include "vhlo/BcShardy.h"

#include "dtc/Support/Tensor.h"
#include "dtc/Support/Words.h"
#include "import/HloNumbers.h"
#include "import/HloSmall.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

namespace dtc {

struct BcText::Nested {
  explicit Nested(BcText& t) : text(t) { ++text.depth_; }
  ~Nested() { --text.depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  [[nodiscard]] bool allowed() const {
    return text.depth_ <= kMaxNesting || text.fail("attributes or types are nested too deep");
  }
  BcText& text;
};

bool BcText::fail(std::string why) {
  if (why_.empty()) why_ = std::move(why);
  return false;
}

bool BcText::withinLimit() {
  return out.size() <= limit_ || fail("the text of this program is too long for its size");
}

// --- types ---

static constexpr size_t kMaxTypeText = 1u << 16;
static constexpr std::string_view kInProgress = "?"; // no type is this text

std::string BcText::shape(const BcNode& t) {
  std::string text;
  for (int64_t size : std::span(t.ints).subspan(1)) {
    text += size < 0 ? "?" : std::to_string(size);
    text += "x";
  }
  text += typeText(t.types[0]);
  if (!t.attrs.empty()) text += ", " + attrText(t.attrs[0]);
  return text;
}

std::string BcText::makeType(const BcNode& t) {
  const auto list = [&](size_t begin, size_t n) {
    std::string text;
    for (size_t i = begin; i < begin + n && ok() && text.size() < kMaxTypeText; ++i)
      text += (i > begin ? ", " : "") + std::string(typeText(t.types[i]));
    return text;
  };
  switch (t.row->kind) {
  case BcKind::Text: return std::string(t.text);
  case BcKind::Element:
    if (!t.row->name.empty()) return std::string(t.row->name);
    return std::string(t.ints[0] & 1   ? "s"
                       : t.ints[0] & 2 ? "u"
                                       : "") +
           "i" + std::to_string(static_cast<uint64_t>(t.ints[0]) >> 2);
  case BcKind::Complex: return "complex<" + list(0, 1) + ">";
  case BcKind::Ranked: return "tensor<" + shape(t) + ">";
  case BcKind::Buffer: return "memref<" + shape(t) + ">";
  case BcKind::Unranked: return "tensor<*x" + list(0, 1) + ">";
  case BcKind::Tuple: return "tuple<" + list(0, t.types.size()) + ">";
  case BcKind::Future: return "!stablehlo.future<" + list(0, t.types.size()) + ">";
  case BcKind::Token: return "!stablehlo.token";
  case BcKind::None: return "none";
  case BcKind::Function: {
    const auto inputs = static_cast<size_t>(t.ints[0]);
    return "(" + list(0, inputs) + ") -> (" + list(inputs, t.types.size() - inputs) + ")";
  }
  default: fail("type " + std::to_string(t.row->code) + " is unsupported: expected no quantized types");
  }
  return "none";
}

std::string_view BcText::typeText(uint32_t t) {
  const Nested nested(*this);
  if (!nested.allowed() || !ok()) return "none";
  if (types_[t] == kInProgress) fail("a type contains itself");
  if (types_[t].empty() && ok()) {
    types_[t] = kInProgress;
    types_[t] = makeType(bc_.types[t]);
    if (types_[t].size() >= kMaxTypeText) fail("the text of a type is too long");
    limit_ -= std::min(limit_, types_[t].size());
  }
  return types_[t];
}

// --- numbers ---

namespace {

void appendHex(std::string& out, std::string_view bytes) {
  static constexpr char digits[] = "0123456789ABCDEF";
  for (char c : bytes) {
    out += digits[static_cast<unsigned char>(c) >> 4];
    out += digits[static_cast<unsigned char>(c) & 15];
  }
}

// The bytes of one element in memory; 0 if the type is unknown.
size_t bytesOf(std::string_view element) {
  const auto dtype = hloDType(element);
  if (!dtype) return element == "f8E8M0FNU" || element.starts_with("f6") ? 1 : 0;
  return findHloSmall(element) ? 1 : static_cast<size_t>(dtypeBytes(*dtype)); // one byte each
}

bool isWholeNumber(std::string_view element) {
  return element.find('i') < 2 || element == "index"; // i32, ui8, si4
}

} // namespace

// One element of a real dtype.
void BcText::element(std::string_view type, std::string_view bytes) {
  const auto dtype = hloDType(type);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data(), std::min(bytes.size(), sizeof bits));
  if (type == "i1") {
    out += bits ? "true" : "false";
  } else if (isWholeNumber(type)) {
    const bool negative = !type.starts_with("u") && bytes.size() < 8 && bits >> (8 * bytes.size() - 1);
    const int64_t value =
        negative ? static_cast<int64_t>(bits | ~uint64_t{0} << 8 * bytes.size()) : static_cast<int64_t>(bits);
    out += type.starts_with("u") ? std::to_string(bits) : std::to_string(value);
  } else if (double value = 0; dtype && static_cast<size_t>(dtypeBytes(*dtype)) == bytes.size() && [&] {
               Tensor one(*dtype, {});
               std::memcpy(one.bytes().data(), bytes.data(), bytes.size());
               value = one.getFloat(0);
               return std::isfinite(value);
             }()) {
    char text[40];
    const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
    const std::string_view number(text, static_cast<size_t>(end - text));
    const size_t exponent = number.find('e');
    out += number.substr(0, exponent);
    if (number.find('.') == std::string_view::npos) out += ".0"; // "1e+00" is not a float of MLIR
    out += number.substr(exponent);
  } else { // its bits
    std::string big(bytes.rbegin(), bytes.rend());
    out += "0x";
    appendHex(out, big);
  }
}

void BcText::integer(const BcNode& n) {
  const std::string_view type = typeText(n.types[0]);
  if (type == "i1") {
    out += n.ints[0] & 1 ? "true" : "false";
    return;
  }
  const size_t bytes = std::max<size_t>(bytesOf(type), 1);
  element(type, std::string_view(reinterpret_cast<const char*>(n.ints.data()), bytes));
  out += " : ";
  out += type;
}

void BcText::real(const BcNode& n) {
  const std::string_view type = typeText(n.types[0]);
  element(type,
          std::string_view(reinterpret_cast<const char*>(n.ints.data()), std::max<size_t>(bytesOf(type), 1)));
  out += " : ";
  out += type;
}

void BcText::hex(std::string_view bytes) {
  out.reserve(out.size() + 2 * bytes.size() + 8);
  out += "\"0x";
  appendHex(out, bytes);
  out += '"';
}

void BcText::elements(std::string_view type, const std::vector<int64_t>& dims, size_t dim,
                      std::string_view& bytes, size_t bytesEach) {
  if (dim < dims.size()) {
    out += '[';
    for (int64_t i = 0; i < dims[dim]; ++i) {
      if (i) out += ", ";
      elements(type, dims, dim + 1, bytes, bytesEach);
    }
    out += ']';
    return;
  }
  if (type.starts_with("complex<")) {
    const std::string_view part = type.substr(8, type.size() - 9);
    out += '(';
    element(part, bytes.substr(0, bytesEach / 2));
    out += ", ";
    element(part, bytes.substr(bytesEach / 2, bytesEach / 2));
    out += ')';
  } else {
    element(type, bytes.substr(0, bytesEach));
  }
  bytes.remove_prefix(bytesEach);
}

// The number of elements, or nothing if it does not fit.
static std::optional<uint64_t> product(const std::vector<int64_t>& dims) {
  uint64_t n = 1;
  for (int64_t d : dims)
    if (d < 0 || __builtin_mul_overflow(n, static_cast<uint64_t>(d), &n)) return std::nullopt;
  return n;
}

// Booleans are packed, eight to a byte; a splat is one byte, 0 or 255.
static std::string unpacked(std::string_view bytes, uint64_t n) {
  const bool splat = bytes.size() == 1 && n > 1 && (n > 8 || bytes[0] == '\xff' || bytes[0] == '\0');
  if (splat) return {bytes[0] ? '\1' : '\0'};
  if (bytes.size() == n && n != 1) return std::string(bytes);
  std::string out;
  for (uint64_t i = 0; i < n && i / 8 < bytes.size(); ++i)
    out += static_cast<char>(bytes[i / 8] >> (i % 8) & 1);
  return out;
}

// Few elements in decimal, others as bytes.
void BcText::tensor(const BcNode& n) {
  constexpr uint64_t kFew = 32;
  const BcNode& type = bc_.types[n.types[0]];
  if (!type.is(BcKind::Ranked)) {
    fail("the type of a constant is not a ranked tensor");
    return;
  }
  const std::vector<int64_t> dims(type.ints.begin() + 1, type.ints.end());
  const auto count = product(dims);
  const std::string element(typeText(type.types[0]));
  const size_t each = bytesOf(element);
  std::string bools;
  std::string_view bytes = n.text;
  if (!count) {
    fail("a constant has too many elements");
    return;
  }
  if (element == "i1") {
    bools = unpacked(n.text, *count);
    bytes = bools;
  }
  out += "dense<";
  if (each && bytes.size() == each && *count > 0)
    elements(element, *count == 1 ? dims : std::vector<int64_t>(), 0, bytes, each);
  else if (each && *count <= kFew && *count > 0 && bytes.size() == *count * each && dims.size() < kFew)
    elements(element, dims, 0, bytes, each);
  else if (!bytes.empty())
    hex(bytes);
  out += "> : ";
  out += typeText(n.types[0]);
}

void BcText::array(const BcNode& n) {
  const std::string type(typeText(n.types[0]));
  const size_t each = bytesOf(type);
  out += "array<" + type;
  std::string_view bytes = n.text;
  for (const char* separator = ": "; each && bytes.size() >= each && withinLimit(); separator = ", ") {
    out += separator;
    elements(type, {}, 0, bytes, each);
  }
  out += ">";
}

std::vector<int64_t> BcText::intsOf(uint32_t a) const {
  const BcNode& n = bc_.attrs[a];
  std::vector<int64_t> ints;
  if (!n.is(BcKind::Tensor)) return ints;
  const BcNode& type = bc_.types[n.types[0]];
  if (!type.is(BcKind::Ranked) || bc_.types[type.types[0]].row->bits != 64) return ints;
  const auto count = product({type.ints.begin() + 1, type.ints.end()});
  for (size_t i = 0; i + 8 <= n.text.size(); i += 8) {
    ints.emplace_back();
    std::memcpy(&ints.back(), n.text.data() + i, 8);
  }
  if (ints.size() == 1 && count && *count > 1 && *count < 64) ints.resize(*count, ints[0]); // a splat
  return ints;
}

// --- attributes ---

void BcText::quoted(std::string_view text) {
  out += '"';
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || u < 32 || u >= 127) {
      out += '\\';
      appendHex(out, std::string_view(&c, 1));
    } else {
      out += c;
    }
  }
  out += '"';
}

static bool isPlainName(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name[0]) && std::ranges::all_of(name, [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '$' || c == '.';
  });
}

void BcText::symbol(std::string_view name) {
  out += '@';
  if (isPlainName(name))
    out += name;
  else
    quoted(name);
}

std::string_view BcText::stringOf(uint32_t a) const {
  for (int hops = 0; hops < 8; ++hops) {
    const BcNode& n = bc_.attrs[a];
    if (n.is(BcKind::String)) return n.text;
    if (!n.is(BcKind::Symbol)) break;
    a = n.attrs[0];
  }
  return {};
}

void BcText::entries(const BcNode& d) {
  for (size_t i = 0; i + 1 < d.attrs.size() && withinLimit(); i += 2) {
    if (i) out += ", ";
    const std::string_view name = stringOf(d.attrs[i]);
    if (isPlainName(name))
      out += name;
    else
      quoted(name);
    if (bc_.attrs[d.attrs[i + 1]].is(BcKind::Unit)) continue;
    out += " = ";
    attr(d.attrs[i + 1]);
  }
}

void BcText::dictionary(const BcNode& d) {
  out += '{';
  entries(d);
  out += '}';
}

void BcText::intList(std::span<const int64_t> ints) {
  out += '[' + joined(ints, ", ", [](int64_t v) { return std::to_string(v); }) + ']';
}

void BcText::listOf(std::span<const uint32_t> attrs) {
  out += '[';
  for (size_t i = 0; i < attrs.size() && withinLimit(); ++i) {
    if (i) out += ", ";
    attr(attrs[i]);
  }
  out += ']';
}

// #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">]>
void BcText::meshPart(const BcNode& n) {
  out += "#stablehlo." + std::string(n.row->name) + "<";
  const auto part = [&](const char* name, size_t i) {
    if (i >= n.attrs.size()) return;
    out += name;
    if (n.row->name == "replica_group_mesh_axes" && i == 0 && bc_.attrs[n.attrs[0]].is(BcKind::String))
      symbol(stringOf(n.attrs[0]));
    else
      attr(n.attrs[i]);
  };
  if (n.row->name == "sub_axis_info") {
    out += "pre_size = " + std::to_string(n.ints[0]) + ", size = " + std::to_string(n.ints[1]);
  } else if (n.row->name == "axis_ref") {
    part("name = ", 0);
    part(", sub_axis_info = ", 1);
  } else if (n.row->name == "mesh_axis") {
    part("name = ", 0);
    out += ", size = " + std::to_string(n.ints[0]);
  } else {
    part(n.row->name == "mesh" ? "axes = " : "mesh = ", 0);
    part(n.row->name == "mesh" ? ", device_ids = " : ", axes = ", 1);
  }
  out += '>';
}

// Word `i` of a text separated by blanks; empty if there is none, or it is '-'.
static std::string_view wordAt(std::string_view words, uint64_t i) {
  for (; i > 0 && !words.empty(); --i) words.remove_prefix(std::min(words.find(' '), words.size() - 1) + 1);
  const std::string_view word = words.substr(0, words.find(' '));
  return word == "-" ? std::string_view() : word;
}

std::string BcText::attrText(uint32_t a) {
  std::string before;
  std::swap(before, out);
  limit_ -= std::min(limit_, before.size());
  attr(a);
  limit_ += before.size();
  std::swap(before, out);
  return before;
}

void BcText::attr(uint32_t a) {
  const Nested nested(*this);
  if (!nested.allowed() || !withinLimit() || !ok()) return;
  const BcNode& n = bc_.attrs[a];
  const auto realOf = [&](size_t i) { return std::to_string(std::bit_cast<double>(n.ints[i])); };
  switch (n.row->kind) {
  case BcKind::List: return listOf(n.attrs);
  case BcKind::Dict: return dictionary(n);
  case BcKind::String: return quoted(n.text);
  case BcKind::Symbol: return symbol(stringOf(a));
  case BcKind::TypeRef: return type(n.types[0]);
  case BcKind::Unit: out += "unit"; return;
  case BcKind::Bool: out += n.ints[0] ? "true" : "false"; return;
  case BcKind::Integer: return integer(n);
  case BcKind::Float: return real(n);
  case BcKind::Tensor: return tensor(n);
  case BcKind::Array: return array(n);
  case BcKind::Text: out += n.text; return;
  case BcKind::MeshPart: return meshPart(n);
  case BcKind::Shardy: return shardyText(bc_, a, *this);
  case BcKind::Enum: {
    const std::string word(wordAt(n.row->words, static_cast<uint64_t>(n.ints[0])));
    if (word.empty())
      fail("a value of '" + std::string(n.row->name) + "' is unknown");
    else if (n.row->name.empty())
      out += word + " : i32";
    else
      out += "#stablehlo<" + std::string(n.row->name) + " " + word + ">";
    return;
  }
  case BcKind::Accuracy:
    out += "#stablehlo.result_accuracy<atol = " + realOf(0) + ", rtol = " + realOf(1) +
           ", ulps = " + std::to_string(n.ints[2]) + ", mode = ";
    attr(n.attrs[0]);
    out += '>';
    return;
  case BcKind::OutputAlias: {
    const std::span<const int64_t> ints(n.ints);
    const auto first = static_cast<size_t>(ints[0]);
    out += "#stablehlo.output_operand_alias<output_tuple_indices = ";
    intList(ints.subspan(1, first));
    out += ", operand_index = " + std::to_string(ints[1 + first]) + ", operand_tuple_indices = ";
    intList(ints.subspan(first + 3));
    out += '>';
    return;
  }
  case BcKind::Bounds:
    out += "#stablehlo.bounds<";
    for (size_t i = 1; i < n.ints.size(); ++i)
      out += (i > 1 ? ", " : "") + (n.ints[i] < 0 ? "?" : std::to_string(n.ints[i]));
    out += '>';
    return;
  case BcKind::Resource: {
    out += "dense<";
    hex(bc_.resources[static_cast<size_t>(n.ints[0])].bytes);
    out += "> : ";
    return type(n.types[0]);
  }
  default: fail("attribute " + std::to_string(n.row->code) + " is not expected here");
  }
}

// --- locations ---

static bool isLocation(const BcNode& n) {
  return n.is(BcKind::CallSite) || n.is(BcKind::FileLine) || n.is(BcKind::Fused) || n.is(BcKind::Name);
}

void BcText::loc(uint32_t a) {
  if (a >= bc_.attrs.size() || !isLocation(bc_.attrs[a])) return;
  out += " loc(#loc" + std::to_string(a) + ")";
  locs_.push_back(a);
}

void BcText::locRef(uint32_t a) { out += isLocation(bc_.attrs[a]) ? "#loc" + std::to_string(a) : "unknown"; }

void BcText::locText(uint32_t a) {
  const BcNode& n = bc_.attrs[a];
  if (n.is(BcKind::CallSite)) {
    out += "callsite(";
    locRef(n.attrs[0]);
    out += " at ";
    locRef(n.attrs[1]);
    out += ')';
  } else if (n.is(BcKind::Name)) {
    quoted(stringOf(n.attrs[0]));
    if (!isLocation(bc_.attrs[n.attrs[1]])) return;
    out += '(';
    locRef(n.attrs[1]);
    out += ')';
  } else if (n.is(BcKind::FileLine)) {
    // line, column; or of a range: line, column, (last line,) last column, as far as they are known
    std::span<const int64_t> at(n.ints);
    if (n.row->fields == "aV") at = at.subspan(1);
    const auto text = [&](size_t i) {
      return std::to_string(i < at.size() ? static_cast<uint64_t>(at[i]) : 0);
    };
    quoted(stringOf(n.attrs[0]));
    out += ":" + text(0) + ":" + text(1);
    if (at.size() == 3) out += " to :" + text(2);
    if (at.size() == 4) out += " to " + text(2) + ":" + text(3);
  } else {
    const size_t parts = n.attrs.size() - (n.row->fields == "Aa" ? 1 : 0); // the last is the metadata
    out += "fused[";
    for (size_t i = 0; i < parts && withinLimit(); ++i) {
      if (i) out += ", ";
      locRef(n.attrs[i]);
    }
    out += ']';
  }
}

// Each after those that it contains.
void BcText::locations() {
  enum State : uint8_t { New, Open, Written };
  std::vector<State> states(bc_.attrs.size(), New);
  std::vector<std::pair<uint32_t, size_t>> open; // with the next part to look at
  for (uint32_t used : locs_) {
    if (states[used] == New) open.emplace_back(used, 0);
    while (!open.empty() && ok() && withinLimit()) {
      auto& [a, part] = open.back();
      states[a] = Open;
      const BcNode& n = bc_.attrs[a];
      while (part < n.attrs.size() &&
             (!isLocation(bc_.attrs[n.attrs[part]]) || states[n.attrs[part]] == Written))
        ++part;
      if (part < n.attrs.size()) {
        if (states[n.attrs[part]] == Open) fail("a location contains itself");
        open.emplace_back(n.attrs[part], 0);
        continue;
      }
      out += "#loc" + std::to_string(a) + " = loc(";
      locText(a);
      out += ")\n";
      states[a] = Written;
      open.pop_back();
    }
  }
}

} // namespace dtc
