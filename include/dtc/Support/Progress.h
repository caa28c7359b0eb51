#pragma once
// Progress reports of a long task. The task decides what it reports, its caller whether it is shown.
#include <cstddef>
#include <functional>
#include <string_view>

namespace dtc {

// `what`: the part that starts now ("softmax"); `done` of `of` parts are finished. Called between parts, from
// one thread.
using Progress = std::function<void(std::string_view what, size_t done, size_t of)>;

} // namespace dtc
