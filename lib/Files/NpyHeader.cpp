// The header of a .npy file: a Python dict literal with three keys, parsed as exactly that.
#include "Npy.h"

#include "dtc/Support/ElementCount.h"

namespace dtc {
namespace {

constexpr size_t kMaxHeader = 65536;
constexpr size_t kMaxRank = 32; // NumPy's own limit

struct DictReader {
  std::string_view text;
  size_t at = 0;

  void space() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t')) ++at;
  }
  bool take(std::string_view word) {
    space();
    if (text.substr(at, word.size()) != word) return false;
    at += word.size();
    return true;
  }
  bool string(std::string& out) {
    space();
    if (at >= text.size() || (text[at] != '\'' && text[at] != '"')) return false;
    size_t end = text.find(text[at], at + 1);
    if (end == std::string_view::npos) return false;
    out = text.substr(at + 1, end - at - 1);
    at = end + 1;
    return true;
  }
  bool integer(int64_t& out) {
    space();
    size_t begin = at;
    out = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      auto scaled = checkedMul(out, 10);
      auto next = scaled ? checkedAdd(*scaled, text[at] - '0') : std::nullopt;
      if (!next) return false;
      out = *next;
    }
    return at > begin;
  }
  bool shape(std::vector<int64_t>& out) {
    if (!take("(")) return false;
    while (!take(")")) {
      int64_t n = 0;
      if (out.size() == kMaxRank || !integer(n)) return false;
      out.push_back(n);
      if (!take(",")) return take(")");
    }
    return true;
  }
};

struct Descr {
  const char* code;
  DType dtype;
  bool raw;
};
constexpr Descr kDescrs[] = {
    {"b1", DType::Bool, false},  {"i1", DType::I8, false},  {"i2", DType::I16, false},
    {"i4", DType::I32, false},   {"i8", DType::I64, false}, {"u1", DType::U8, false},
    {"u2", DType::U16, false},   {"u4", DType::U32, false}, {"u8", DType::U64, false},
    {"f2", DType::F16, false},   {"f4", DType::F32, false}, {"f8", DType::F64, false},
    {"V1", DType::U8, true},     {"V2", DType::U16, true},  {"c8", DType::C64, false},
    {"c16", DType::C128, false},
};

bool setDescr(std::string_view descr, NpyHeader& header) {
  if (descr.size() < 2) return false;
  char order = descr[0];
  if (order != '<' && order != '>' && order != '|' && order != '=') return false;
  for (const Descr& d : kDescrs)
    if (descr.substr(1) == d.code) {
      header.dtype = d.dtype;
      header.raw = d.raw;
      header.bigEndian = order == '>';
      return true;
    }
  return false;
}

std::string parseDict(std::string_view text, NpyHeader& header) {
  DictReader in{text};
  bool haveDescr = false, haveOrder = false, haveShape = false;
  if (!in.take("{")) return "its header is not a Python dict";
  while (!in.take("}")) {
    std::string key, descr;
    if (!in.string(key) || !in.take(":")) return "its header is not a Python dict";
    if (key == "descr" && !haveDescr) {
      if (!in.string(descr)) return "it has structured elements, which dtc does not read";
      if (!setDescr(descr, header)) return "it has elements of type '" + descr + "', which dtc does not read";
      haveDescr = true;
    } else if (key == "fortran_order" && !haveOrder) {
      header.fortranOrder = in.take("True");
      if (!header.fortranOrder && !in.take("False")) return "its 'fortran_order' is neither True nor False";
      haveOrder = true;
    } else if (key == "shape" && !haveShape) {
      if (!in.shape(header.shape)) return "its 'shape' is not a tuple of at most 32 sizes";
      haveShape = true;
    } else {
      return "its header has the unknown or repeated key '" + key + "'";
    }
    if (!in.take(",") && !in.take("}")) return "its header is not a Python dict";
    if (in.text[in.at - 1] == '}') break;
  }
  in.space();
  if (in.at != text.size()) return "its header has text after the dict";
  if (!haveDescr || !haveOrder || !haveShape) return "its header lacks 'descr', 'fortran_order' or 'shape'";
  return "";
}

} // namespace

Result<NpyHeader> parseNpyHeader(std::string_view bytes, std::string_view what) {
  auto fail = [&](const std::string& why) {
    return inputError(std::string(what) + " is not a valid .npy file: " + why);
  };
  if (bytes.size() < 10 || bytes.substr(0, 6) != "\x93NUMPY")
    return fail("it does not start with \\x93NUMPY");
  int major = static_cast<unsigned char>(bytes[6]), minor = static_cast<unsigned char>(bytes[7]);
  if (major < 1 || major > 3 || minor != 0)
    return fail("its version is " + std::to_string(major) + "." + std::to_string(minor) +
                ", not 1.0, 2.0 or 3.0");
  size_t lengthBytes = major == 1 ? 2 : 4, length = 0;
  if (bytes.size() < 8 + lengthBytes) return fail("it ends within its header");
  for (size_t i = 0; i < lengthBytes; ++i)
    length |= static_cast<size_t>(static_cast<unsigned char>(bytes[8 + i])) << 8 * i;
  if (length > kMaxHeader)
    return fail("its header has " + std::to_string(length) + " bytes, more than 65536");
  if (bytes.size() - 8 - lengthBytes < length) return fail("it ends within its header");
  NpyHeader header;
  header.dataOffset = 8 + lengthBytes + length;
  std::string why = parseDict(bytes.substr(8 + lengthBytes, length), header);
  if (!why.empty()) return fail(why);
  auto count = elementCount(header.shape);
  if (!count || !checkedMul(*count, dtypeBytes(header.dtype))) return fail("its size exceeds 2^63-1 bytes");
  return header;
}

std::string npyHeaderBytes(DType dtype, const std::vector<int64_t>& dims) {
  const char* code = "f4";
  switch (dtype) {
  case DType::BF16: code = "u2"; break;
  case DType::F8E4M3:
  case DType::F8E5M2: code = "u1"; break;
  default:
    for (const Descr& d : kDescrs)
      if (!d.raw && d.dtype == dtype) code = d.code;
  }
  std::string shape;
  for (size_t i = 0; i < dims.size(); ++i) shape += (i ? ", " : "") + std::to_string(dims[i]);
  if (dims.size() == 1) shape += ",";
  std::string dict = std::string("{'descr': '") + (code[1] == '1' && code[2] == 0 ? '|' : '<') + code +
                     "', 'fortran_order': False, 'shape': (" + shape + "), }";
  dict.append(63 - (10 + dict.size()) % 64, ' '); // the data starts at a multiple of 64, as in NumPy
  dict += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(dict.size() & 255);
  out += static_cast<char>(dict.size() >> 8);
  return out + dict;
}

std::string npyBytes(const Tensor& tensor) {
  std::string out = npyHeaderBytes(tensor.dtype(), tensor.shape());
  out.append(reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size());
  return out;
}

} // namespace dtc
