#include "dtc/Jit/KernelScan.h"
#include <algorithm>
#include <cstdlib>

namespace dtc {
namespace {

bool isWord(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

class Words {
public:
  explicit Words(std::string_view text) : text_(text) {}
  // The next word or single character; "" at the end. Skips comments, strings and blanks.
  std::string_view next() {
    for (;;) {
      if (at_ >= text_.size()) return {};
      const std::string_view rest = text_.substr(at_);
      if (rest.starts_with("//"))
        skipPast("\n");
      else if (rest.starts_with("/*"))
        skipPast("*/");
      else if (rest[0] == '"' || rest[0] == '\'')
        skipString(rest[0]);
      else if (rest[0] == ' ' || rest[0] == '\n' || rest[0] == '\t' || rest[0] == '\r')
        ++at_;
      else
        break;
    }
    const size_t begin = at_++;
    if (isWord(text_[begin]))
      while (at_ < text_.size() && isWord(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

private:
  void skipPast(std::string_view end) {
    const size_t found = text_.find(end, at_ + 2);
    at_ = found == std::string_view::npos ? text_.size() : found + end.size();
  }
  void skipString(char quote) {
    for (++at_; at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n'; ++at_)
      if (text_[at_] == '\\') ++at_;
    ++at_;
  }
  std::string_view text_;
  size_t at_ = 0;
};

// After "__global__": skips words until the one before the parameters' parenthesis; attributes have
// parentheses too.
ScannedKernel readKernel(Words& words) {
  ScannedKernel kernel;
  std::string_view previous;
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (word != "(") {
      previous = word;
      continue;
    }
    if (!previous.starts_with("__")) {
      kernel.name = std::string(previous);
      return kernel;
    }
    std::vector<uint32_t> numbers;
    for (int depth = 1; depth > 0;) {
      const std::string_view inner = words.next();
      if (inner.empty()) break;
      depth += inner == "(" ? 1 : inner == ")" ? -1 : 0;
      if (const int n = std::atoi(std::string(inner).c_str()); n > 0)
        numbers.push_back(static_cast<uint32_t>(n));
    }
    if (previous == "__launch_bounds__" && !numbers.empty()) kernel.bound = numbers[0];
    if (previous == "__cluster_dims__")
      std::copy_n(numbers.begin(), std::min<size_t>(numbers.size(), 3), kernel.cluster);
  }
  return kernel;
}

} // namespace

std::vector<ScannedKernel> scanKernels(std::string_view text) {
  std::vector<ScannedKernel> out;
  Words words(text);
  for (std::string_view word = words.next(); !word.empty(); word = words.next())
    if (word == "__global__")
      if (ScannedKernel kernel = readKernel(words); !kernel.name.empty()) out.push_back(std::move(kernel));
  return out;
}

} // namespace dtc
