#pragma once
// The syntax tree of Shardy's attributes: #sdy.sharding<…>, #sdy.mesh<…>, {"a", "b"} and the like, before the
// meshes are known.
#include "mlir/MlirLexer.h"
#include <vector>

namespace dtc {

// "a", or "a":(2)4; size 0: the whole axis.
struct ShardyAxis {
  std::string name;
  int64_t pre = 1, size = 0;
  SourceRange range;
};

struct ShardyDim {
  std::vector<ShardyAxis> axes;
  bool open = false;
  int32_t priority = -1;
};

// <["a"=2, "b"=4], device_ids=[…]>
struct ShardyMesh {
  std::vector<ShardyAxis> axes; // size: of the axis
  std::vector<int64_t> devices;
  bool hasDevices = false;
};

// @mesh, [{"a", ?}p1, {}], replicated={"b"}, unreduced={"c"} (or unreduced=max{"c"}); the mesh may be
// inlined: mesh<…>.
struct ShardyText {
  std::string mesh; // "" where it is inlined
  ShardyMesh inlined;
  std::vector<ShardyDim> dims;
  std::vector<ShardyAxis> replicated, unreduced;
  std::string_view reduction = "sum"; // the reduction of the unreduced axes
  SourceRange range;
};

class ShardyReader {
public:
  // `part` lies within `source`.
  ShardyReader(std::string_view source, std::string_view part, Diagnostics& diags)
      : lex_(source, part), diags_(diags) {}

  // Each parser starts at the current token; false after a report.
  bool sharding(ShardyText& out);               // @mesh, […] …
  bool shardings(std::vector<ShardyText>& out); // [<…>, <…>], with or without the outer brackets
  bool mesh(ShardyMesh& out);                   // ["a"=2], device_ids=[…]
  bool axes(std::vector<ShardyAxis>& out);      // {"a", "b":(1)2}
  [[nodiscard]] bool atEnd() const { return lex_.atEnd(); }
  MlirLexer& words() { return lex_; }
  bool unexpected(std::string_view wanted);
  bool integer(int64_t& out);

private:
  bool expect(char c);
  bool axis(ShardyAxis& out);
  bool dim(ShardyDim& out);
  bool integers(std::vector<int64_t>& out);
  bool extras(ShardyText& out);
  MlirLexer lex_;
  Diagnostics& diags_;
};

} // namespace dtc
