#pragma once
// `--input` (cli.md): the values of a program's arguments. All are global tensors.
#include "dtc/Eval/RandomInputs.h"
#include "dtc/Files/TensorArchive.h"
#include "dtc/Files/TensorSource.h"
#include <span>
#include <string>
#include <vector>

namespace dtc {

struct InputBinding {
  std::string pattern; // an argument's name, or a pattern with * and ?; "" (Archive): all tensors of the file
  enum Kind : uint8_t { Npy, Raw, Text, Archive, Made } kind = Made;
  std::string path;       // Npy, Raw, Archive
  std::string text;       // Text
  InputSpec spec;         // Made
  bool byDefault = false; // Archive: only arguments that no other binding but `*` matches; may match none
};

struct InputArgument {
  std::string name;     // without %
  std::string userName; // its {name = "…"}, or ""; patterns also match it
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
};

// "x=FILE.npy", "x=raw:FILE", "x=text:WORDS", "x=randn(7)", "'blocks.*=zeros'", "FILE.npz", "weights=FILE.safetensors".
// Errors (Usage) list the forms.
[[nodiscard]] Result<InputBinding> parseInputBinding(std::string_view text);

// Returns one value per argument. A name takes precedence over a file without a name (which binds every
// argument that it has a tensor for), then patterns in the order given, then `weights` (unless it is the name
// of an argument: every float argument still unbound), then `*` (all others). An archive provides the tensor
// of the argument's name; if it is bound to one argument by name and has a single tensor, that one.
// Errors: Usage for an unknown name, a name bound twice, or an unbound argument (with the arguments and the
// forms); Input for files that do not match; Machine if memory runs out.
[[nodiscard]] Result<std::vector<TensorSource>> bindInputs(std::span<const InputBinding> bindings,
                                                           std::span<const InputArgument> arguments,
                                                           ReaderShare share = {});

// The forms, one per line, as `--help` and the errors show them.
[[nodiscard]] std::string inputForms();

// Whether `text` matches a pattern of *, ? and plain characters.
[[nodiscard]] bool matchesPattern(std::string_view pattern, std::string_view text);

} // namespace dtc
