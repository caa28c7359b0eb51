#include "vhlo/BcShardy.h"

#include "dtc/Support/Words.h"

#include <span>

namespace dtc {

namespace {

// Each part is checked to be of the kind that its place asks for, so that nesting ends.
class ShardyWriter {
public:
  ShardyWriter(const Bytecode& bc, BcText& text) : bc_(bc), text_(text) {}

  void attribute(uint32_t a) {
    const std::string_view kind = bc_.attrs[a].row->name;
    std::string& out = text_.out;
    if (kind == "mesh") {
      out += "#sdy.";
      mesh(a);
    } else if (kind == "sharding") {
      out += "#sdy.sharding";
      sharding(a);
    } else if (kind == "sharding_per_value") {
      out += "#sdy.sharding_per_value<[";
      each(bc_.attrs[a].attrs, &ShardyWriter::sharding);
      out += "]>";
    } else if (kind == "dim") {
      out += "#sdy.dimension_sharding<";
      dim(a);
      out += '>';
    } else if (kind == "manual_axes") {
      out += "#sdy<manual_axes{";
      each(bc_.attrs[a].attrs, &ShardyWriter::name);
      out += "}>";
    } else if (kind == "op_sharding_rule") {
      rule(bc_.attrs[a]);
    } else {
      lists(kind, a);
    }
  }

private:
  using Part = void (ShardyWriter::*)(uint32_t);
  void each(std::span<const uint32_t> parts, Part part) {
    for (size_t i = 0; i < parts.size() && text_.withinLimit() && text_.ok(); ++i) {
      if (i) text_.out += ", ";
      (this->*part)(parts[i]);
    }
  }

  // The node, if it is of that kind.
  const BcNode* node(uint32_t a, std::string_view kind) {
    const BcNode& n = bc_.attrs[a];
    if (n.is(BcKind::Shardy) && n.row->name == kind) return &n;
    text_.fail("expected an attribute '" + std::string(kind) + "' of Shardy");
    return nullptr;
  }

  void name(uint32_t a) { text_.quoted(text_.stringOf(a)); }

  void axis(uint32_t a) {
    const BcNode* n = node(a, "axis");
    if (!n) return;
    text_.quoted(n->text);
    text_.out += "=" + std::to_string(n->ints[0]);
  }

  // mesh<["x"=2, "y"=4], device_ids=[1, 0]>
  void mesh(uint32_t a) {
    const BcNode* n = node(a, "mesh");
    if (!n) return;
    text_.out += "mesh<[";
    each(n->attrs, &ShardyWriter::axis);
    text_.out += ']';
    const auto ids = std::span(n->ints).subspan(1); // after their number
    if (!ids.empty()) text_.out += ", device_ids=[" + joined(ids) + "]";
    text_.out += '>';
  }

  // "x":(1)2
  void axisRef(uint32_t a) {
    const BcNode* n = node(a, "axis_ref");
    if (!n) return;
    text_.quoted(n->text);
    if (n->attrs.empty()) return;
    if (const BcNode* part = node(n->attrs[0], "sub_axis"))
      text_.out += ":(" + std::to_string(part->ints[0]) + ")" + std::to_string(part->ints[1]);
  }

  void axes(std::span<const uint32_t> refs) {
    text_.out += '{';
    each(refs, &ShardyWriter::axisRef);
    text_.out += '}';
  }

  // {"x", ?}p1
  void dim(uint32_t a) {
    const BcNode* n = node(a, "dim");
    if (!n) return;
    text_.out += '{';
    each(n->attrs, &ShardyWriter::axisRef);
    const std::span<const int64_t> ints = std::span(n->ints).last(3);
    if (!ints[0]) text_.out += n->attrs.empty() ? "?" : ", ?";
    text_.out += '}';
    if (ints[1]) text_.out += "p" + std::to_string(ints[2]);
  }

  // <@mesh, [{"x"}, {}], replicated={"y"}, unreduced={"z"}>
  void sharding(uint32_t a) {
    const BcNode* n = node(a, "sharding");
    if (!n) return;
    text_.out += '<';
    if (bc_.attrs[n->attrs[0]].is(BcKind::Symbol))
      text_.symbol(text_.stringOf(n->attrs[0]));
    else
      mesh(n->attrs[0]);
    const std::span<const uint32_t> parts(n->attrs);
    size_t at = 1, list = 0;
    const auto next = [&] {
      const auto size = static_cast<size_t>(n->ints[list++]);
      at += size;
      return parts.subspan(at - size, size);
    };
    text_.out += ", [";
    each(next(), &ShardyWriter::dim);
    text_.out += ']';
    const bool operation = n->row->fields.ends_with('i'); // of the partial values, other than a sum
    const size_t lists = n->ints.size() - (operation ? 1 : 0);
    for (const char* label : {", replicated=", ", unreduced="}) {
      const auto refs = list < lists ? next() : std::span<const uint32_t>();
      if (refs.empty()) continue;
      text_.out += label;
      axes(refs);
      if (operation && list == lists) text_.fail("partial values other than sums are unsupported");
    }
    text_.out += '>';
  }

  void axisList(uint32_t a) {
    if (const BcNode* n = node(a, "axis_ref_list")) axes(n->attrs);
  }

  // {"x"}: 0->1
  void exchange(uint32_t a) {
    const BcNode* n = node(a, "all_to_all_param");
    if (!n) return;
    axes(n->attrs);
    const auto dims = std::span(n->ints).last(2);
    text_.out += ": " + std::to_string(dims[0]) + "->" + std::to_string(dims[1]);
  }

  // i, j, … z, z_1, …
  static std::string factor(int64_t f) {
    constexpr int64_t kLetters = 'z' - 'i' + 1;
    if (f < kLetters) return {static_cast<char>('i' + std::max<int64_t>(f, 0))};
    return "z_" + std::to_string(f - kLetters + 1);
  }

  void dimFactors(uint32_t a) {
    if (const BcNode* n = node(a, "dim_mapping"))
      for (int64_t f : std::span(n->ints).subspan(1)) text_.out += factor(f);
  }

  void tensorFactors(uint32_t a) {
    const BcNode* n = node(a, "tensor_mapping");
    if (!n) return;
    text_.out += '[';
    each(n->attrs, &ShardyWriter::dimFactors);
    text_.out += ']';
  }

  // ([i, j], [j, k])->([i, k]) {i=2, j=3, k=4} reduction={j}
  void rule(const BcNode& n) {
    const std::span<const uint32_t> mappings(n.attrs);
    std::span<const int64_t> rest(n.ints);
    const auto takeList = [&] {
      const auto list = rest.subspan(1, static_cast<size_t>(rest[0]));
      rest = rest.subspan(1 + list.size());
      return list;
    };
    const auto sizes = takeList();
    const auto operands = static_cast<size_t>(rest[0]);
    rest = rest.subspan(2); // the numbers of operands and results
    text_.out += "#sdy.op_sharding_rule<(";
    each(mappings.first(operands), &ShardyWriter::tensorFactors);
    text_.out += ")->(";
    each(mappings.subspan(operands), &ShardyWriter::tensorFactors);
    text_.out += ") {";
    for (size_t i = 0; i < sizes.size(); ++i)
      text_.out += (i ? ", " : "") + factor(static_cast<int64_t>(i)) + "=" + std::to_string(sizes[i]);
    text_.out += '}';
    for (const char* label :
         {" reduction={", " need_replication={", " permutation={", " blocked_propagation={"})
      if (const auto factors = takeList(); !factors.empty())
        text_.out += label + joined(factors, ", ", factor) + "}";
    text_.out += rest[0] ? ", custom>" : ">";
  }

  void lists(std::string_view kind, uint32_t a) {
    const std::span<const uint32_t> parts(bc_.attrs[a].attrs);
    text_.out += "#sdy<" + std::string(kind);
    if (kind == "axis_ref_list") {
      axes(parts);
      text_.out += '>';
      return;
    }
    text_.out += '[';
    if (kind == "list_of_axis_ref_lists")
      each(parts, &ShardyWriter::axisList);
    else if (kind == "all_to_all_param_list")
      each(parts, &ShardyWriter::exchange);
    else
      text_.fail("attribute '" + std::string(kind) + "' of Shardy is not expected here");
    text_.out += "]>";
  }

  const Bytecode& bc_;
  BcText& text_;
};

} // namespace

void shardyText(const Bytecode& bc, uint32_t attr, BcText& text) { ShardyWriter(bc, text).attribute(attr); }

} // namespace dtc
