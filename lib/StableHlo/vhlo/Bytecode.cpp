#include "vhlo/Bytecode.h"

#include <algorithm>
#include <array>
#include <optional>

namespace dtc {

namespace {

constexpr std::string_view kMagic = "ML\xefR";

enum SectionId : uint8_t {
  kStrings,
  kDialects,
  kAttrTypes,
  kAttrTypeOffsets,
  kIr,
  kResources,
  kResourceOffsets,
  kVersions,
  kPropertySection,
  kSections
};
constexpr const char* kSectionNames[kSections] = {"string",          "dialect",  "attribute",
                                                  "attribute size",  "IR",       "resource",
                                                  "resource offset", "versions", "properties"};

class BytecodeReader {
public:
  BytecodeReader(std::string_view file, Bytecode& out, ByteFault& fault)
      : file_(file), top_(file, file, fault), out_(out) {}

  bool read() {
    return header() && strings() && dialects() && resources() && entries() && properties() && top_.ok();
  }

private:
  [[nodiscard]] ByteCursor at(SectionId id) const { return top_.over(sections_[id].value_or("")); }

  bool header() {
    if (top_.bytes(kMagic.size()) != kMagic) return top_.fail("this is not MLIR bytecode");
    out_.version = top_.number();
    if (top_.ok() && out_.version > kBcNewest)
      return top_.fail("version " + std::to_string(out_.version) + " of MLIR bytecode is unknown: expected " +
                       std::to_string(kBcNewest) + " or older");
    out_.producer = top_.text();
    while (top_.ok() && !top_.atEnd()) {
      const ByteCursor::Section s = top_.section();
      if (!top_.ok()) return false;
      if (s.id >= kSections) return top_.fail("section " + std::to_string(s.id) + " is unknown");
      if (sections_[s.id])
        return top_.fail(std::string("there are two ") + kSectionNames[s.id] + " sections");
      sections_[s.id] = s.data;
    }
    for (SectionId id : {kStrings, kDialects, kAttrTypes, kAttrTypeOffsets, kIr})
      if (top_.ok() && !sections_[id])
        return top_.fail(std::string("the ") + kSectionNames[id] + " section is missing");
    out_.ir = sections_[kIr].value_or("");
    return top_.ok();
  }

  // The lengths in reverse order, with the zero byte at the end of each.
  bool strings() {
    ByteCursor c = at(kStrings);
    std::vector<uint64_t> sizes(c.count());
    for (uint64_t& size : sizes) size = c.number();
    if (!c.ok()) return false;
    for (size_t i = sizes.size(); i-- > 0;) {
      const std::string_view text = c.bytes(sizes[i]);
      if (!c.ok()) return false;
      if (text.empty() || text.back() != '\0') return c.fail("a string has no zero at its end");
      out_.strings.push_back(text.substr(0, text.size() - 1));
    }
    return true;
  }

  std::string_view string(ByteCursor& c) {
    const uint64_t i = c.index(out_.strings.size(), "string");
    return c.ok() ? out_.strings[i] : std::string_view();
  }

  // Groups {dialect, count, count entries} until `wanted` entries are read, or up to the end.
  template <class Entry> bool groups(ByteCursor& c, std::optional<size_t> wanted, Entry entry) {
    for (size_t have = 0; c.ok() && (wanted ? have < *wanted : !c.atEnd());) {
      const uint64_t dialect = c.index(out_.dialects.size(), "dialect");
      const uint64_t n = c.count();
      if (wanted && n > *wanted - have) return c.fail("a group has too many entries");
      if (wanted && n == 0) return c.fail("a group has no entries");
      for (uint64_t i = 0; i < n && c.ok(); ++i) entry(out_.dialects[dialect]);
      have += n;
    }
    return c.ok();
  }

  bool dialects() {
    ByteCursor c = at(kDialects);
    const uint64_t n = c.count();
    for (uint64_t i = 0; i < n && c.ok(); ++i) {
      bool versioned = false;
      const uint64_t name = out_.version < kBcDialectVersions ? c.number() : c.flagged(versioned);
      if (c.ok() && name >= out_.strings.size()) return c.fail("the name of a dialect does not exist");
      if (c.ok()) out_.dialects.push_back(out_.strings[name]);
      if (versioned && c.section().id != kVersions) return c.fail("expected the version of a dialect");
    }
    if (out_.version >= kBcElidedLocations) (void)c.number(); // how many ops there are
    return c.ok() && groups(c, std::nullopt, [&](std::string_view dialect) {
             bool registered = true;
             const uint64_t name = out_.version < kBcProperties ? c.number() : c.flagged(registered);
             if (c.ok() && name >= out_.strings.size()) c.fail("the name of an op does not exist");
             if (c.ok()) out_.ops.push_back({dialect, out_.strings[name], registered});
           });
  }

  bool resources() {
    if (!sections_[kResourceOffsets]) return true;
    ByteCursor c = at(kResourceOffsets), data = at(kResources);
    for (uint64_t external = c.count(); external > 0 && c.ok(); --external) {
      (void)string(c);
      resourceGroup(c, data, false);
    }
    while (c.ok() && !c.atEnd()) {
      (void)c.index(out_.dialects.size(), "dialect");
      resourceGroup(c, data, true);
    }
    return c.ok() && data.ok();
  }

  void resourceGroup(ByteCursor& c, ByteCursor& data, bool keep) {
    for (uint64_t n = c.count(); n > 0 && c.ok(); --n) {
      const std::string_view key = string(c);
      ByteCursor entry = data.over(data.bytes(c.number()));
      const uint8_t kind = c.byte();
      std::string_view bytes;
      if (kind == 0 && c.ok()) { // a blob
        const uint64_t alignment = entry.number(), size = entry.number();
        entry.align(alignment);
        bytes = entry.bytes(size);
      }
      if (keep) out_.resources.push_back({key, bytes});
    }
  }

  struct Entry {
    std::string_view dialect, data;
    bool custom = false;
  };

  // Types first: the width of a number depends on its type.
  bool entries() {
    ByteCursor sizes = at(kAttrTypeOffsets), data = at(kAttrTypes);
    const uint64_t numAttrs = sizes.count(), numTypes = sizes.count();
    std::vector<Entry> attrs, types;
    for (auto [list, n] : {std::pair{&attrs, numAttrs}, std::pair{&types, numTypes}})
      if (!groups(sizes, n, [&, to = list](std::string_view dialect) {
            Entry& e = to->emplace_back();
            e.dialect = dialect;
            e.data = data.bytes(sizes.flagged(e.custom));
          }))
        return false;
    out_.attrs.resize(attrs.size());
    out_.types.resize(types.size());
    for (size_t i = 0; i < types.size(); ++i)
      if (!node(types[i], true, out_.types[i])) return false;
    for (size_t i = 0; i < attrs.size(); ++i)
      if (!node(attrs[i], false, out_.attrs[i])) return false;
    return data.ok();
  }

  bool node(const Entry& e, bool isType, BcNode& out) {
    ByteCursor c = top_.over(e.data);
    if (!e.custom) {
      out.row = &bcTextRow();
      out.text = c.text();
      return c.ok();
    }
    const BcDialect* dialect = findBcDialect(e.dialect);
    if (!dialect) return c.fail("the encoding of dialect '" + std::string(e.dialect) + "' is unknown");
    const uint64_t code = c.number();
    const auto rows = isType ? dialect->types : dialect->attrs;
    const auto row = std::ranges::find(rows, code, &BcEncoding::code);
    if (row == rows.end())
      return c.fail(std::string(isType ? "type " : "attribute ") + std::to_string(code) + " of dialect '" +
                    std::string(e.dialect) + "' is unknown");
    out.row = &*row;
    for (char field : row->fields)
      if (!this->field(c, field, out)) return false;
    return c.ok();
  }

  void attr(ByteCursor& c, BcNode& out) {
    out.attrs.push_back(static_cast<uint32_t>(c.index(out_.attrs.size(), "attribute")));
  }
  void type(ByteCursor& c, BcNode& out) {
    out.types.push_back(static_cast<uint32_t>(c.index(out_.types.size(), "type")));
  }

  bool field(ByteCursor& c, char letter, BcNode& out) {
    const bool list = std::string_view("ATDVIL").find(letter) != std::string_view::npos;
    const uint64_t n = list ? c.count() : 1;
    if (list && (letter != 'A' && letter != 'D')) out.ints.push_back(static_cast<int64_t>(n));
    for (uint64_t i = 0; i < n && c.ok(); ++i) one(c, letter, out);
    return c.ok();
  }

  void one(ByteCursor& c, char letter, BcNode& out) {
    bool given = true;
    switch (letter) {
    case 'D': attr(c, out); [[fallthrough]];
    case 'A':
    case 'L':
    case 'a': attr(c, out); break;
    case 'o':
      if (const uint64_t i = c.flagged(given); given && i < out_.attrs.size())
        out.attrs.push_back(static_cast<uint32_t>(i));
      else if (given)
        c.fail("attribute " + std::to_string(i) + " does not exist");
      break;
    case 'O':
      if (c.number() != 0) attr(c, out);
      break;
    case 'T':
    case 't': type(c, out); break;
    case 'y': out.ints.push_back(c.byte()); break;
    case 'w':
      out.ints.push_back(0);
      out.ints.push_back(static_cast<int64_t>(c.flagged(given)));
      out.ints[out.ints.size() - 2] = given;
      break;
    case 's': out.text = string(c); break;
    case 'V':
    case 'v': out.ints.push_back(static_cast<int64_t>(c.number())); break;
    case 'I':
    case 'i':
    case 'd': out.ints.push_back(c.signedNumber()); break;
    case 'n': number(c, out); break;
    case 'b': out.text = c.bytes(c.number()); break;
    case 'r': out.ints.push_back(static_cast<int64_t>(c.index(out_.resources.size(), "resource"))); break;
    default: break;
    }
  }

  // A byte for at most 8 bits, else a signed number.
  void number(ByteCursor& c, BcNode& out) {
    if (!c.ok()) return;
    const BcNode& t = out_.types[out.types.back()];
    const uint64_t bits = !t.is(BcKind::Element) ? 0
                          : t.row->bits          ? t.row->bits
                                                 : static_cast<uint64_t>(t.ints[0]) >> 2;
    if (bits == 0 || bits > 64)
      c.fail("a number has a type of " + std::to_string(bits) + " bits");
    else
      out.ints.push_back(bits <= 8 ? static_cast<int64_t>(c.byte()) : c.signedNumber());
  }

  bool properties() {
    if (!sections_[kPropertySection] || sections_[kPropertySection]->empty()) return true;
    ByteCursor c = at(kPropertySection);
    for (uint64_t n = c.count(); n > 0 && c.ok(); --n) out_.properties.push_back(c.bytes(c.number()));
    return c.ok();
  }

  std::string_view file_;
  ByteCursor top_;
  Bytecode& out_;
  std::array<std::optional<std::string_view>, kSections> sections_;
};

} // namespace

bool readBytecode(std::string_view file, Bytecode& out, ByteFault& fault) {
  return BytecodeReader(file, out, fault).read();
}

} // namespace dtc
