#pragma once
// Where the ranks of several processes of this host meet: files in memory that are written once, named by what they are
// for. The folder is named by the unique id, with the process that made it; that of a process that is gone is removed by
// the next one that comes.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stub {

class Board {
public:
  explicit Board(std::string id) : id_(std::move(id)) {}
  // Makes the folder, if nobody has.
  void open() const;
  void post(const std::string& name, const std::string& bytes) const;
  [[nodiscard]] bool has(const std::string& name) const;
  [[nodiscard]] std::optional<std::string> read(const std::string& name) const;
  void remove(const std::string& name) const;
  void removeAll() const;
  // An id of this process.
  [[nodiscard]] static std::string newId();

private:
  [[nodiscard]] std::string path(const std::string& name) const;
  std::string id_;
};

} // namespace stub
