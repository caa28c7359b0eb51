#include "dtc/Jit/ElfLoader.h"
#include "dtc/Jit/HostSymbols.h"
#include <bit>
#include <cerrno>
#include <cstring>
#include <elf.h>
#include <optional>
#include <sys/mman.h>
#include <unistd.h>

namespace dtc {
namespace {

Error bad(const std::string& what) { return {Error::Bug, "cannot load the compiled code: " + what}; }

enum Segment { Code, Constant, Data, kSegments };

// The entries that an external symbol needs: a jump to it, a pointer to it.
struct External {
  uint64_t address = 0;
  size_t slot = 0; // index in the table of pointers and of jumps
};

constexpr size_t kJumpBytes = 8; // jmp *[rip+disp32], two bytes of padding

class Loader {
public:
  Loader(std::string_view object, std::span<const HostSymbol> hosts) : object_(object), hosts_(hosts) {}
  Status readHeaders();
  Status layOut();
  Status map(void*& base, size_t& size);
  Status copy();
  Status resolve();
  Status relocate();
  Status protect();
  [[nodiscard]] std::vector<std::pair<std::string, void*>> exports() const;

private:
  template <class T> [[nodiscard]] std::optional<T> read(uint64_t offset) const {
    T value;
    if (offset > object_.size() || object_.size() - offset < sizeof(T)) return std::nullopt;
    std::memcpy(&value, object_.data() + offset, sizeof(T));
    return value;
  }
  [[nodiscard]] bool inObject(const Elf64_Shdr& s) const {
    return s.sh_offset <= object_.size() && s.sh_size <= object_.size() - s.sh_offset;
  }
  [[nodiscard]] bool loaded(uint32_t section) const {
    return section < sections_.size() && offset_[section] != kNowhere;
  }
  [[nodiscard]] std::string_view nameOf(const Elf64_Sym& symbol) const;
  [[nodiscard]] const void* lookUp(std::string_view name) const;
  Status relocateSection(const Elf64_Shdr& table);
  Status apply(const Elf64_Rela& entry, const Elf64_Shdr& target, uint8_t* targetBase);
  Status store32(uint8_t* where, int64_t value, bool isSigned);

  static constexpr uint64_t kNowhere = ~uint64_t{0};
  std::string_view object_;
  std::span<const HostSymbol> hosts_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<uint64_t> offset_; // of each section, from the base
  std::vector<Elf64_Sym> symbols_;
  std::vector<uint64_t> address_; // of each symbol; 0 where it has none
  std::vector<size_t> slot_;      // of each symbol: in the tables of jumps and pointers
  uint32_t stringSection_ = 0;
  uint64_t start_[kSegments + 1] = {}; // page-aligned offsets of the segments; the last is the size
  uint64_t jumps_ = 0, pointers_ = 0;  // offsets of the tables
  uint8_t* base_ = nullptr;
};

uint64_t alignUp(uint64_t v, uint64_t a) { return (v + a - 1) & ~(a - 1); }

Status Loader::readHeaders() {
  auto header = read<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_type != ET_REL || header->e_machine != EM_X86_64 ||
      header->e_shentsize != sizeof(Elf64_Shdr))
    return bad("it is not a relocatable x86-64 object");
  for (uint32_t i = 0; i < header->e_shnum; ++i) {
    auto section = read<Elf64_Shdr>(header->e_shoff + uint64_t{i} * sizeof(Elf64_Shdr));
    if (!section) return bad("its section table is truncated");
    if (section->sh_type != SHT_NOBITS && section->sh_type != SHT_NULL && !inObject(*section))
      return bad("a section is truncated");
    sections_.push_back(*section);
  }
  for (const Elf64_Shdr& section : sections_) {
    if (section.sh_type != SHT_SYMTAB) continue;
    stringSection_ = section.sh_link;
    if (stringSection_ >= sections_.size()) return bad("its symbols have no names");
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= section.sh_size; at += sizeof(Elf64_Sym))
      symbols_.push_back(*read<Elf64_Sym>(section.sh_offset + at));
  }
  return Ok{};
}

std::string_view Loader::nameOf(const Elf64_Sym& symbol) const {
  const Elf64_Shdr& strings = sections_[stringSection_];
  if (strings.sh_type != SHT_STRTAB || symbol.st_name >= strings.sh_size) return {};
  std::string_view all = object_.substr(strings.sh_offset + symbol.st_name, strings.sh_size - symbol.st_name);
  return all.substr(0, all.find('\0'));
}

Status Loader::layOut() {
  constexpr uint64_t kMaxBytes = uint64_t{1}
                                 << 30; // keeps every 32-bit displacement and all sums here in range
  offset_.assign(sections_.size(), kNowhere);
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t at = 0;
  for (int segment = Code; segment < kSegments; ++segment) {
    start_[segment] = at;
    for (size_t i = 0; i < sections_.size(); ++i) {
      const Elf64_Shdr& s = sections_[i];
      if (!(s.sh_flags & SHF_ALLOC) || s.sh_type == SHT_X86_64_UNWIND) continue;
      const Segment its = s.sh_flags & SHF_EXECINSTR ? Code : s.sh_flags & SHF_WRITE ? Data : Constant;
      if (its != segment) continue;
      if (s.sh_flags & SHF_TLS) return bad("it has thread-local variables");
      const uint64_t align = s.sh_addralign ? s.sh_addralign : 1;
      if ((align & (align - 1)) || align > page || s.sh_size > kMaxBytes)
        return bad("a section's size or alignment is wrong");
      at = alignUp(at, align);
      offset_[i] = at;
      at += s.sh_size;
      if (at > kMaxBytes) return bad("it is larger than 1 GiB");
    }
    if (segment == Code) jumps_ = at = alignUp(at, 16), at += symbols_.size() * kJumpBytes;
    if (segment == Constant) pointers_ = at = alignUp(at, 16), at += symbols_.size() * sizeof(void*);
    at = alignUp(at, page);
  }
  start_[kSegments] = at;
  return Ok{};
}

Status Loader::map(void*& base, size_t& size) {
  size = start_[kSegments];
  base = mmap(nullptr, size ? size : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    base = nullptr;
    return machineError("no memory for " + std::to_string(size) + " bytes of compiled code");
  }
  base_ = static_cast<uint8_t*>(base);
  return Ok{};
}

Status Loader::copy() {
  for (size_t i = 0; i < sections_.size(); ++i)
    if (offset_[i] != kNowhere && sections_[i].sh_type != SHT_NOBITS)
      std::memcpy(base_ + offset_[i], object_.data() + sections_[i].sh_offset, sections_[i].sh_size);
  return Ok{};
}

const void* Loader::lookUp(std::string_view name) const {
  for (const HostSymbol& host : hosts_)
    if (host.name == name) return host.address;
  return hostFunction(name);
}

Status Loader::resolve() {
  address_.assign(symbols_.size(), 0);
  for (size_t i = 1; i < symbols_.size(); ++i) {
    const Elf64_Sym& symbol = symbols_[i];
    if (symbol.st_shndx == SHN_UNDEF) {
      const std::string_view name = nameOf(symbol);
      if (name.empty()) continue;
      address_[i] = reinterpret_cast<uint64_t>(lookUp(name));
      if (!address_[i]) return bad("it refers to the unknown symbol '" + std::string(name) + "'");
    } else if (symbol.st_shndx == SHN_ABS) {
      address_[i] = symbol.st_value;
    } else if (loaded(symbol.st_shndx)) {
      if (symbol.st_value > sections_[symbol.st_shndx].sh_size)
        return bad("a symbol is outside of its section");
      address_[i] = reinterpret_cast<uint64_t>(base_) + offset_[symbol.st_shndx] + symbol.st_value;
    } else {
      continue;
    }
    // A jump and a pointer for each: only those used by relocations are ever read.
    uint8_t* jump = base_ + jumps_ + i * kJumpBytes;
    uint8_t* pointer = base_ + pointers_ + i * sizeof(void*);
    const auto distance = static_cast<int32_t>(pointer - (jump + 6));
    std::memcpy(pointer, &address_[i], sizeof(void*));
    jump[0] = 0xff, jump[1] = 0x25;
    std::memcpy(jump + 2, &distance, sizeof distance);
  }
  return Ok{};
}

Status Loader::store32(uint8_t* where, int64_t value, bool isSigned) {
  if (isSigned ? value != static_cast<int32_t>(value)
               : value != static_cast<int64_t>(static_cast<uint32_t>(value)))
    return bad("a relocation is out of range");
  const auto low = static_cast<uint32_t>(value);
  std::memcpy(where, &low, sizeof low);
  return Ok{};
}

Status Loader::apply(const Elf64_Rela& entry, const Elf64_Shdr& target, uint8_t* targetBase) {
  const uint64_t index = ELF64_R_SYM(entry.r_info);
  const auto type = static_cast<uint32_t>(ELF64_R_TYPE(entry.r_info));
  if (type == R_X86_64_NONE) return Ok{};
  const uint64_t width = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
  if (index >= symbols_.size() || entry.r_offset > target.sh_size || target.sh_size - entry.r_offset < width)
    return bad("a relocation is outside of its section");
  const bool defined = address_[index] != 0 || symbols_[index].st_shndx == SHN_ABS;
  if (!defined) return bad("a relocation refers to a section that is not loaded");
  uint8_t* where = targetBase + entry.r_offset;
  const auto here = reinterpret_cast<int64_t>(where);
  const auto value = static_cast<int64_t>(address_[index]) + entry.r_addend;
  const auto pointer = reinterpret_cast<int64_t>(base_ + pointers_ + index * sizeof(void*)) + entry.r_addend;
  const auto jump = reinterpret_cast<int64_t>(base_ + jumps_ + index * kJumpBytes) + entry.r_addend;
  switch (type) {
  case R_X86_64_64: std::memcpy(where, &value, 8); return Ok{};
  case R_X86_64_PC64: {
    const int64_t distance = value - here;
    std::memcpy(where, &distance, 8);
    return Ok{};
  }
  case R_X86_64_PLT32: {
    const int64_t near = value - here;
    return store32(where, near == static_cast<int32_t>(near) ? near : jump - here, true);
  }
  case R_X86_64_PC32: return store32(where, value - here, true);
  case R_X86_64_GOTPCREL:
  case R_X86_64_GOTPCRELX:
  case R_X86_64_REX_GOTPCRELX: return store32(where, pointer - here, true);
  case R_X86_64_32: return store32(where, value, false);
  case R_X86_64_32S: return store32(where, value, true);
  default: return bad("it has an unsupported relocation of kind " + std::to_string(type));
  }
}

Status Loader::relocateSection(const Elf64_Shdr& table) {
  if (!loaded(table.sh_info)) return Ok{}; // of debug or unwinding sections
  const Elf64_Shdr& target = sections_[table.sh_info];
  for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= table.sh_size; at += sizeof(Elf64_Rela))
    if (auto done = apply(*read<Elf64_Rela>(table.sh_offset + at), target, base_ + offset_[table.sh_info]);
        !done)
      return done;
  return Ok{};
}

Status Loader::relocate() {
  for (const Elf64_Shdr& section : sections_) {
    if (section.sh_type == SHT_REL) return bad("it has relocations without addends");
    if (section.sh_type != SHT_RELA) continue;
    if (auto done = relocateSection(section); !done) return done;
  }
  return Ok{};
}

Status Loader::protect() {
  const int access[kSegments] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};
  for (int segment = Code; segment < kSegments; ++segment) {
    const uint64_t size = start_[segment + 1] - start_[segment];
    if (size && mprotect(base_ + start_[segment], size, access[segment]) != 0)
      return machineError(errno == ENOMEM
                              ? "no memory to make compiled code executable"
                              : std::string("the system does not allow compiled code to be executed: ") +
                                    std::strerror(errno));
  }
  return Ok{};
}

std::vector<std::pair<std::string, void*>> Loader::exports() const {
  std::vector<std::pair<std::string, void*>> out;
  for (size_t i = 1; i < symbols_.size(); ++i) {
    const Elf64_Sym& symbol = symbols_[i];
    const auto type = ELF64_ST_TYPE(symbol.st_info);
    if (ELF64_ST_BIND(symbol.st_info) == STB_LOCAL || symbol.st_shndx == SHN_UNDEF || !address_[i]) continue;
    if (type != STT_FUNC && type != STT_OBJECT && type != STT_NOTYPE) continue;
    out.emplace_back(nameOf(symbol), std::bit_cast<void*>(address_[i]));
  }
  return out;
}

} // namespace

LoadedObject::~LoadedObject() {
  if (base_) munmap(base_, size_);
}

class ElfLoader {
public:
  static Result<std::shared_ptr<const LoadedObject>> load(std::string_view object,
                                                          std::span<const HostSymbol> hosts) {
    std::shared_ptr<LoadedObject> loaded(new LoadedObject);
    Loader loader(object, hosts);
    if (auto s = loader.readHeaders(); !s) return s.error();
    if (auto s = loader.layOut(); !s) return s.error();
    if (auto s = loader.map(loaded->base_, loaded->size_); !s) return s.error();
    for (auto step : {&Loader::copy, &Loader::resolve, &Loader::relocate, &Loader::protect})
      if (auto s = (loader.*step)(); !s) return s.error();
    loaded->symbols_ = loader.exports();
    return std::shared_ptr<const LoadedObject>(std::move(loaded));
  }
};

Result<std::shared_ptr<const LoadedObject>> loadObject(std::string_view object,
                                                       std::span<const HostSymbol> hosts) {
#if defined(__x86_64__)
  return ElfLoader::load(object, hosts);
#else
  return machineError("compiled kernels can be loaded on x86-64 only");
#endif
}

} // namespace dtc
