#include "import/HloNumbers.h"

#include "import/HloSmall.h"

#include "dtc/Support/Tensor.h"
#include "mlir/MlirLexer.h"

#include <charconv>
#include <cstring>

namespace dtc {

namespace {

// "c64" is two f32: an element is read as `parts` numbers of this dtype.
struct Layout {
  DType part;
  size_t parts;
};

Layout layoutOf(DType d) {
  if (dtypeName(d) == "c64") return {DType::F32, 2};
  if (dtypeName(d) == "c128") return {DType::F64, 2};
  return {d, 1};
}

int hexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

class NumberReader {
public:
  NumberReader(std::string_view source, std::string_view body, DType dtype, int64_t count, std::string& why,
               const HloSmall* small)
      : lex_(source, body), layout_(layoutOf(dtype)), count_(count), why_(why), small_(small) {
    out_.dtype = dtype;
  }

  std::optional<HloNumbers> read(std::string_view body) {
    if (body.find_first_not_of(" \n\t\r") == std::string_view::npos) { // dense<> : tensor<0xf32>
      if (count_ != 0) return fail("has no elements, but expected " + std::to_string(count_));
      return std::move(out_);
    }
    if (lex_.peek().kind == MlirTok::String) {
      std::string_view text = lex_.next().text;
      return lex_.atEnd() ? hex(text) : fail("has text after its string");
    }
    out_.splat = !lex_.peek().is('[');
    if (!elements()) return std::nullopt;
    if (!lex_.atEnd()) return fail("has text after its elements");
    auto have = static_cast<int64_t>(out_.count());
    if (!out_.splat && have != count_)
      return fail("has " + std::to_string(have) + " elements, but expected " + std::to_string(count_));
    return std::move(out_);
  }

  // "0x…": the elements' bytes, little-endian; i1 in bits or in bytes.
  std::optional<HloNumbers> hex(std::string_view text) {
    if (!text.starts_with("0x") || text.size() % 2) return fail("has a string that is not \"0x…\"");
    std::vector<std::byte> bytes;
    bytes.reserve(text.size() / 2);
    for (size_t i = 2; i < text.size(); i += 2) {
      int high = hexValue(text[i]), low = hexValue(text[i + 1]);
      if (high < 0 || low < 0) return fail("has a string that is not \"0x…\"");
      bytes.push_back(static_cast<std::byte>(high * 16 + low));
    }
    return fromBytes(std::move(bytes));
  }

  std::optional<HloNumbers> fromBytes(std::vector<std::byte> bytes) {
    if (small_) bytes = widened(bytes);
    size_t one = layout_.parts * static_cast<size_t>(dtypeBytes(layout_.part));
    if (isBool(out_.dtype)) return bools(bytes);
    out_.splat = bytes.size() == one && count_ != 1;
    if (!out_.splat && bytes.size() / one != static_cast<size_t>(count_))
      return fail("has " + std::to_string(bytes.size()) + " bytes for " + std::to_string(count_) +
                  " elements of " + std::string(dtypeName(out_.dtype)));
    if (bytes.size() % one) return fail("ends within an element");
    out_.bytes = std::move(bytes);
    return std::move(out_);
  }

private:
  // Each element of a small dtype has a byte of its own.
  [[nodiscard]] std::vector<std::byte> widened(const std::vector<std::byte>& patterns) const {
    std::vector<std::byte> out;
    for (std::byte b : patterns) {
      Tensor one(layout_.part, {});
      if (small_->isInteger())
        one.setInt(0, small_->wrap(static_cast<int64_t>(b)));
      else
        one.setFloat(0, small_->decode(static_cast<uint8_t>(b)));
      out.insert(out.end(), one.bytes().begin(), one.bytes().end());
    }
    return out;
  }

  std::optional<HloNumbers> fail(std::string why) {
    why_ = std::move(why);
    return std::nullopt;
  }

  std::optional<HloNumbers> bools(const std::vector<std::byte>& bytes) {
    auto n = static_cast<size_t>(count_);
    if (bytes.size() == 1 && (n > 8 || n == 1 || bytes[0] == std::byte{0xff} || bytes[0] == std::byte{0})) {
      out_.splat = n != 1;
      out_.bytes.assign(1, std::byte{bytes[0] != std::byte{0}});
    } else if (bytes.size() == n) {
      for (std::byte b : bytes) out_.bytes.push_back(std::byte{b != std::byte{0}});
    } else if (bytes.size() == (n + 7) / 8) {
      for (size_t i = 0; i < n; ++i) out_.bytes.push_back((bytes[i / 8] >> (i % 8)) & std::byte{1});
    } else {
      return fail("has " + std::to_string(bytes.size()) + " bytes for " + std::to_string(n) +
                  " elements of bool");
    }
    return std::move(out_);
  }

  // Nested lists; only the number of elements is checked, not the shape.
  bool elements() {
    size_t depth = 0;
    bool wanted = true; // an element or '['
    for (;;) {
      if (wanted && lex_.accept('[')) {
        if (++depth > 64) return bad("is nested too deep");
        wanted = !lex_.peek().is(']');
      } else if (wanted) {
        if (!element()) return false;
        wanted = false;
      } else if (depth > 0 && lex_.accept(']')) {
        --depth;
      } else if (depth > 0 && lex_.accept(',')) {
        wanted = true;
      } else {
        return depth == 0 || bad("has unbalanced brackets");
      }
      if (depth == 0 && !wanted) return true;
    }
  }

  bool bad(std::string why) {
    why_ = std::move(why);
    return false;
  }

  bool element() {
    if (layout_.parts == 1) return number();
    if (!lex_.accept('(')) return bad("has an element that is not (real, imaginary)");
    if (!number() || !lex_.accept(',') || !number() || !lex_.accept(')'))
      return bad("has an incomplete complex element");
    return true;
  }

  bool number() {
    MlirToken t = lex_.next();
    if (out_.bytes.size() / static_cast<size_t>(dtypeBytes(layout_.part)) >=
            static_cast<size_t>(count_) * layout_.parts &&
        !out_.splat)
      return bad("has more elements than its type");
    Tensor one(layout_.part, {});
    bool ok = false;
    if (t.isWord("true") || t.isWord("false")) {
      one.setInt(0, t.text == "true");
      ok = isBool(layout_.part);
    } else if (t.kind == MlirTok::Int) {
      ok = isFloat(layout_.part) ? floatFromInt(one, t.text, small_) : integer(one, t.text, small_);
    } else if (t.kind == MlirTok::Float && isFloat(layout_.part)) {
      double v = 0;
      auto [stop, error] = std::from_chars(t.text.data(), t.text.data() + t.text.size(), v);
      ok = error == std::errc() || error == std::errc::result_out_of_range;
      one.setFloat(0, v);
    }
    if (!ok)
      return bad("has an element that is not " + std::string(dtypeName(layout_.part)) + ": " +
                 std::string(t.text));
    out_.bytes.insert(out_.bytes.end(), one.bytes().begin(), one.bytes().end());
    return true;
  }

  // 0x7FC00000 is the float with these bits; 3 is 3.0.
  static bool floatFromInt(Tensor& one, std::string_view text, const HloSmall* small) {
    auto v = mlirInteger(text);
    if (!v) return false;
    if (text.find("0x") == std::string_view::npos)
      one.setFloat(0, static_cast<double>(*v));
    else if (small)
      one.setFloat(0, small->decode(static_cast<uint8_t>(*v)));
    else
      std::memcpy(one.bytes().data(), &*v, one.bytes().size());
    return true;
  }

  static bool integer(Tensor& one, std::string_view text, const HloSmall* small) {
    auto v = mlirInteger(text);
    if (v) one.setInt(0, small ? small->wrap(*v) : *v);
    return v.has_value();
  }

  MlirLexer lex_;
  Layout layout_;
  int64_t count_;
  std::string& why_;
  const HloSmall* small_;
  HloNumbers out_;
};

} // namespace

size_t HloNumbers::count() const { return bytes.size() / static_cast<size_t>(dtypeBytes(dtype)); }

std::optional<DType> hloDType(std::string_view element) {
  struct Name {
    std::string_view text, ours;
  };
  static constexpr Name names[] = {
      {"i1", "bool"},          {"f8E4M3FN", "f8e4m3"},   {"f8E5M2", "f8e5m2"},
      {"complex<f32>", "c64"}, {"complex<f64>", "c128"}, {"index", "i64"},
  };
  for (const Name& n : names)
    if (n.text == element) return parseDType(n.ours);
  if (const HloSmall* small = findHloSmall(element)) return small->held;
  std::string ours(element.starts_with("ui") || element.starts_with("si") ? element.substr(1) : element);
  if (element.starts_with("si")) ours = "i" + std::string(element.substr(2));
  static constexpr std::string_view same[] = {"i8",  "i16", "i32",  "i64", "u8",  "u16",
                                              "u32", "u64", "bf16", "f16", "f32", "f64"};
  for (std::string_view s : same)
    if (element.starts_with("ui") ? ours == "i" + std::string(s.substr(1)) && s[0] == 'u'
                                  : ours == s && s[0] != 'u')
      return parseDType(s);
  return std::nullopt;
}

std::optional<HloNumbers> readNumbers(std::string_view source, const MlirTree& tree, const MlirAttr& a,
                                      DType dtype, int64_t count, std::string& why, const HloSmall* small) {
  NumberReader reader(source, a.kind == MlirAttr::Dense ? a.body : std::string_view(source.data(), 0), dtype,
                      count, why, small);
  if (a.kind == MlirAttr::Dense) return reader.read(a.body);
  auto found = tree.resources.find(a.body);
  if (a.kind != MlirAttr::Resource || found == tree.resources.end()) {
    why = a.kind == MlirAttr::Resource
              ? "names the resource '" + std::string(a.body) + "', which the file does not have"
              : "is not dense<…>";
    return std::nullopt;
  }
  // The first four bytes give the alignment.
  if (found->second.size() < 10) {
    why = "names a resource without bytes";
    return std::nullopt;
  }
  auto value = reader.hex("0x" + std::string(found->second.substr(10)));
  return value;
}

} // namespace dtc
