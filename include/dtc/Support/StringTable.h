#pragma once
// Interned strings: StrIds are equal iff the texts are.
#include "dtc/Support/Id.h"
#include "dtc/Support/InternIndex.h"
#include <deque>
#include <string>
#include <string_view>

namespace dtc {

class StringTable {
  struct Same {
    const std::deque<std::string>& texts;
    std::string_view text;
    bool operator()(uint32_t i) const { return texts[i] == text; }
  };

public:
  StrId intern(std::string_view text) {
    const auto next = static_cast<uint32_t>(texts_.size());
    const uint32_t id = index_.findOrAdd(std::hash<std::string_view>{}(text), next, Same{texts_, text});
    if (id == next) texts_.emplace_back(text);
    return StrId(id);
  }
  // The id of `text` if it was interned, else an invalid one.
  [[nodiscard]] StrId find(std::string_view text) const {
    return StrId(index_.find(std::hash<std::string_view>{}(text), Same{texts_, text}));
  }
  [[nodiscard]] std::string_view operator[](StrId id) const {
    return id.valid() ? std::string_view(texts_[id.index]) : std::string_view();
  }

private:
  std::deque<std::string> texts_; // by id; a view of one stays valid
  InternIndex index_;
};

} // namespace dtc
