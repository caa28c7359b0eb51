#pragma once
// Parses types, sizes, mesh axes and shardings (ir.md), and checks shardings against their mesh.
#include "text/Generics.h"
#include "text/GivenSizes.h"

namespace dtc {

class TypeParser : TokenReader {
public:
  TypeParser(const TokenReader& in, const GivenSizes& sizes) : TokenReader(in), sizes_(sizes) {}

  bool type(ParsedType&); // required
  bool dim(Dim&);
  [[nodiscard]] bool atPack() const { return atName() && at(Tok::Ellipsis, 1); }
  bool pack(std::vector<Dim>&); // appends
  bool axis(AxisRef&);
  bool checkAxis(const AxisRef&, const Mesh&, SourceRange);
  bool sharding(ParsedSharding&);
  // Resolves a sharding of a tensor of this global type, and validates it.
  bool finishSharding(const ParsedSharding&, TypeId globalType, ShardingId&);
  // The whole text is one sharding, of any rank.
  bool onlySharding(MeshId defaultMesh, Sharding& out);

  MeshId localMesh;                                      // of the spmd function or `local` block being parsed
  const GenericBinding* generic = nullptr;               // of the instance being parsed
  std::unordered_map<StrId, SourceRange> declaredMeshes; // including those with errors

private:
  bool size(DimExpr&);
  bool shardOfSize(DimExpr&, SourceRange);
  bool axisSizes(AxisRef&);
  bool axisList(std::vector<AxisRef>&); // after "("; takes ")"
  bool integer(int64_t& out, std::string_view what, int64_t min);
  bool dimStyle(Sharding&);
  bool dimSharding(DimSharding&);
  bool shardingParts(DimSharding&);
  bool clauses(Sharding&);
  bool meshStyle(ParsedSharding&);
  bool placement(Placement&);
  bool checkAxes(const ParsedSharding&, const Mesh&);

  const GivenSizes& sizes_;
  std::vector<ParsedAxis>* axes_ = nullptr; // receives the axes of the sharding being parsed
};

} // namespace dtc
