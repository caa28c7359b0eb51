#pragma once
// `--input` (cli.md): which values the arguments of a program get. All are global tensors.
#include "dtc/Eval/RandomInputs.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"
#include <span>
#include <string>
#include <vector>

namespace dtc {

struct InputBinding {
  std::string pattern; // an argument's name, or a pattern with * and ?
  enum Kind : uint8_t { Npy, Raw, Made } kind = Made;
  std::string path; // Npy, Raw
  InputSpec spec;   // Made
};

struct InputArgument {
  std::string name;     // without %
  std::string userName; // its {name = "…"}, or ""; patterns match it too
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
};

// "x=FILE.npy", "x=raw:FILE", "x=randn(7)", "'blocks.*=zeros'". Errors (Usage) show the forms.
[[nodiscard]] Result<InputBinding> parseInputBinding(std::string_view text);

// One tensor per argument. A name binds before a pattern, patterns in the order given, then `weights` (where no argument
// has that name: every float argument still unbound), then `*` (all that is left).
// Errors: Usage for a name that no argument has, one bound twice, an argument left unbound (these name the arguments and
// show the forms); Input for files that do not fit; Machine where memory runs out.
[[nodiscard]] Result<std::vector<Tensor>> bindInputs(std::span<const InputBinding> bindings,
                                                     std::span<const InputArgument> arguments);

// The forms, one a line, as `--help` and the errors show them.
[[nodiscard]] std::string inputForms();

// Does `text` match a pattern of *, ? and plain characters?
[[nodiscard]] bool matchesPattern(std::string_view pattern, std::string_view text);

} // namespace dtc
