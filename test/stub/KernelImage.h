#pragma once
// What the stub of NVRTC makes and the stub of CUDA loads: the text of kernels, for a target.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace stub {

struct KernelImage {
  std::string target, name, source; // "sm_90a", the name of the unit, its text

  // "DTC STUB sm_90a k_exp\n" and the text.
  [[nodiscard]] std::string write() const { return kMark + target + " " + name + "\n" + source; }
  // Nothing for another image.
  [[nodiscard]] static std::optional<KernelImage> read(const std::string& image) {
    if (!image.starts_with(kMark)) return std::nullopt;
    const size_t begin = kMark.size(), blank = image.find(' ', begin), line = image.find('\n', begin);
    return KernelImage{image.substr(begin, blank - begin), image.substr(blank + 1, line - blank - 1),
                       image.substr(line + 1)};
  }

private:
  static inline const std::string kMark = "DTC STUB ";
};

// The bytes of each parameter of `name` in a text: pointers and 64-bit numbers 8, others 4.
inline std::vector<size_t> parametersOf(const std::string& text, const std::string& name) {
  std::vector<size_t> out;
  size_t head = text.find(name + "(");
  while (head != std::string::npos) { // its definition, not a call of something with such an end
    const size_t mark = text.rfind("__global__", head);
    const bool defined = mark != std::string::npos && text.find_first_of("{;", mark) > head;
    if (defined && head > 0 && (text[head - 1] == ' ' || text[head - 1] == '\n')) break;
    head = text.find(name + "(", head + 1);
  }
  if (head == std::string::npos) return out;
  size_t at = head + name.size() + 1;
  const size_t end = text.find(')', at);
  while (at < end) {
    const size_t comma = std::min(text.find(',', at), end);
    const std::string one = text.substr(at, comma - at);
    if (one.find_first_not_of(" \n") == std::string::npos) break;
    const bool wide = one.find('*') != std::string::npos || one.find("64") != std::string::npos ||
                      one.find("long") != std::string::npos;
    out.push_back(wide ? 8 : 4);
    at = comma + 1;
  }
  return out;
}

} // namespace stub
