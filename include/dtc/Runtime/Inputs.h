#pragma once
// `--input` (cli.md): which values the arguments of a program get. All are global tensors.
#include "dtc/Eval/RandomInputs.h"
#include "dtc/Runtime/TensorSource.h"
#include <span>
#include <string>
#include <vector>

namespace dtc {

struct InputBinding {
  std::string pattern; // an argument's name, or a pattern with * and ?; "" (Archive): what the file has
  enum Kind : uint8_t { Npy, Raw, Archive, Made } kind = Made;
  std::string path; // Npy, Raw, Archive
  InputSpec spec;   // Made
};

struct InputArgument {
  std::string name;     // without %
  std::string userName; // its {name = "…"}, or ""; patterns match it too
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
};

// "x=FILE.npy", "x=raw:FILE", "x=randn(7)", "'blocks.*=zeros'", "FILE.npz", "weights=FILE.safetensors". Errors (Usage)
// show the forms.
[[nodiscard]] Result<InputBinding> parseInputBinding(std::string_view text);

// One value per argument. A name binds before a file that stands alone (which binds every argument that it has a tensor for),
// then patterns in the order given, then `weights` (where no argument has that name: every float argument still unbound),
// then `*` (all that is left). A file of several tensors gives each argument the one of its name; where it is bound to one
// argument by name, and holds one tensor alone, that one.
// Errors: Usage for a name that no argument has, one bound twice, an argument left unbound (these name the arguments and
// show the forms); Input for files that do not fit; Machine where memory runs out.
[[nodiscard]] Result<std::vector<TensorSource>> bindInputs(std::span<const InputBinding> bindings,
                                                           std::span<const InputArgument> arguments);

// The forms, one a line, as `--help` and the errors show them.
[[nodiscard]] std::string inputForms();

// Does `text` match a pattern of *, ? and plain characters?
[[nodiscard]] bool matchesPattern(std::string_view pattern, std::string_view text);

} // namespace dtc
