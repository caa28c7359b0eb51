#include "dtc/Report/FileFormat.h"
#include "dtc/Files/InputFile.h"
#include "dtc/Report/audit/XlaHlo.h"

#include <algorithm>
#include <cstdint>

namespace dtc {

namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kBytecode = "ML\xefR"sv; // MLIR's magic
constexpr const char* kPrintIt = "dtc reads exported.serialize() of a jax.export artifact, and the portable "
                                 "artifact (bytecode) itself; any other program as text, as "
                                 "jax.jit(f).lower(...).as_text() prints it";

// An archive is identified by the names of its files.
std::string zipFormat(std::string_view content) {
  const std::string_view head = content.substr(0, 1u << 16);
  if (head.find(".npy") != std::string_view::npos)
    return "a NumPy archive (.npz), which holds tensors, not a program: pass it with --input FILE";
  if (head.find("data.pkl") != std::string_view::npos)
    return "a PyTorch checkpoint with pickles, which dtc does not read: save the program with "
           "torch.export.save, or the weights as .safetensors";
  if (content.rfind("PK\x05\x06"sv) == std::string_view::npos) // the list of its files, which ends an archive
    return "a zip archive, such as a package, whose end is missing: write or copy the file again";
  return "a zip archive, which dtc does not read";
}

// Eight bytes with the length of the JSON header that follows.
bool isSafetensors(std::string_view content) {
  if (content.size() < 10 || content[8] != '{') return false;
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(content[i]);
  return length <= content.size() - 8;
}

bool startsWithAny(std::string_view content, std::initializer_list<std::string_view> heads) {
  return std::any_of(heads.begin(), heads.end(), [&](std::string_view h) { return content.starts_with(h); });
}

std::string binaryFormat(std::string_view content) {
  if (content.starts_with("PK\x03\x04"sv)) return zipFormat(content);
  if (content.starts_with("\x93NUMPY"sv))
    return "a NumPy tensor (.npy), not a program: pass it with --input NAME=FILE";
  if (isSafetensors(content))
    return "a .safetensors file, which holds tensors, not a program: pass it with --input FILE";
  if (content.starts_with("\x7f"
                          "ELF"sv))
    return "machine code (an ELF file), not a program in text";
  if (content.starts_with("\x1f\x8b"sv)) return "compressed with gzip: decompress it first";
  if (content.starts_with("\x89HDF"sv))
    return "an HDF5 file, which dtc does not read: save the tensors as .npz or .safetensors";
  if (isPickle(content))
    return "a Python pickle, which dtc does not read: save the tensors as .npz or .safetensors";
  if (startsWithAny(content, {"\xff\xfe"sv, "\xfe\xff"sv})) return "text in UTF-16: dtc reads UTF-8";
  if (content.substr(0, 1u << 16).find(kBytecode) != std::string_view::npos)
    return std::string("a file with MLIR bytecode in it: ") + kPrintIt;
  // Text contains no zero bytes, and no control characters except blanks.
  const std::string_view head = content.substr(0, 512);
  if (std::any_of(head.begin(), head.end(), [](char c) { return static_cast<unsigned char>(c) < 9; }))
    return "a binary file: dtc reads programs as text, .dt or StableHLO";
  return {};
}

std::string textFormat(std::string_view content) {
  if (looksLikeXlaHlo(content))
    return "XLA's HLO text: `dtc audit` reads it; to run it, print the program before XLA compiles it, "
           "jax.jit(f).lower(...).as_text()";
  const size_t begin = std::min(content.find_first_not_of(" \t\r\n"), content.size());
  content.remove_prefix(begin);
  if (content.starts_with("{ lambda ")) return "a jaxpr: print jax.jit(f).lower(...).as_text() instead";
  // A .dt text may begin with `import "optim"`.
  if (startsWithAny(content, {"import ", "from ", "def ", "class ", "#!"}) &&
      !content.starts_with("import \"") && content.find("func @") == std::string_view::npos)
    return "a script, not a dtc program: print the lowered program, jax.jit(f).lower(...).as_text() in JAX";
  if (startsWithAny(content, {"; ModuleID", "source_filename", "target datalayout", "target triple"}))
    return "LLVM IR, which dtc does not read";
  if (startsWithAny(content, {"<!DOCTYPE", "<html", "<?xml"})) return "a web page or XML, not a program";
  return {};
}

} // namespace

std::string foreignFormat(std::string_view content) {
  std::string format = binaryFormat(content);
  return format.empty() ? textFormat(content) : format;
}

} // namespace dtc
