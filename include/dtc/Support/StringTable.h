#pragma once
// Interned strings: StrIds are equal iff the texts are.
#include "dtc/Support/Id.h"
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace dtc {

class StringTable {
public:
  StringTable() = default;
  StringTable(StringTable&&) noexcept = default;
  StringTable& operator=(StringTable&&) noexcept = default;
  // The keys of a copy must refer to its own texts.
  StringTable(const StringTable& other) : texts_(other.texts_) { index(); }
  StringTable& operator=(const StringTable& other) {
    texts_ = other.texts_;
    index();
    return *this;
  }

  StrId intern(std::string_view text) {
    auto it = ids_.find(text);
    if (it != ids_.end()) return it->second;
    StrId id(static_cast<uint32_t>(texts_.size()));
    texts_.emplace_back(text);
    ids_.emplace(texts_.back(), id);
    return id;
  }
  // The id of `text` if it was interned, else an invalid one.
  [[nodiscard]] StrId find(std::string_view text) const {
    auto it = ids_.find(text);
    return it == ids_.end() ? StrId() : it->second;
  }
  [[nodiscard]] std::string_view operator[](StrId id) const {
    return id.valid() ? std::string_view(texts_[id.index]) : std::string_view();
  }

private:
  void index() {
    ids_.clear();
    for (uint32_t i = 0; i < texts_.size(); ++i) ids_.emplace(texts_[i], StrId(i));
  }
  std::deque<std::string> texts_; // stable addresses: the keys of ids_ refer to it
  std::unordered_map<std::string_view, StrId> ids_;
};

} // namespace dtc
