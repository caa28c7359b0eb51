// What most sources include, parsed once for all of them (DtcLibraries.cmake). Each source still includes what it uses:
// clang-tidy checks them without this header.
#include "dtc/IR/build/Builder.h"
#include "dtc/Sharding/Rule.h"
#include "dtc/Support/Tensor.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>
