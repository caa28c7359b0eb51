#pragma once
// Whom a long task tells what it is at. The task decides what it says, its caller whether anybody sees it.
#include <cstddef>
#include <functional>
#include <string_view>

namespace dtc {

// `what`: the part that is begun now ("softmax"); `done` of `of` parts are finished. Called between parts, from one thread.
using Progress = std::function<void(std::string_view what, size_t done, size_t of)>;

} // namespace dtc
