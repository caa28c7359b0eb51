#include "dtc/Ops/Expr.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Support/Result.h"

namespace dtc::ops {

Expr Expr::as(DType to) const {
  return dtype() == to ? *this : detail::one(*this, "convert", {*this}, {{"dtype", DTypeAttr(to)}});
}

Expr Expr::literal(Arg number) const { return {*builder_, number.literal(*builder_, dtype())}; }

ValueId Arg::literal(Builder& b, DType dtype) const {
  if (kind_ == Real) return b.literal(real_, dtype);
  if (!dtc::isInteger(dtype)) return b.literal(static_cast<double>(integer_), dtype);
  if (!fitsInteger(dtype, integer_, false))
    b.mismatch(std::to_string(integer_) + " is out of the range of " + std::string(dtypeName(dtype)));
  return b.module.makeLiteral(b.module.attrs.integer(integer_), dtype, b.loc);
}

AttrId AttrValue::intern(Module& m) const {
  switch (kind_) {
  case Id: return id_;
  case Integer: return m.attrs.integer(integer_);
  case Real: return m.attrs.real(real_);
  case Bool: return m.attrs.boolean(integer_ != 0);
  case String: return m.attrs.string(m.strings.intern({static_cast<const char*>(data_), size_}));
  case DTypeName: return m.attrs.word(m.strings.intern(dtypeName(static_cast<DType>(integer_))));
  case Size:
    return sizeAttr(m, integer_ >= 0 ? Dim(integer_) : Dim::fromTable(static_cast<uint32_t>(-1 - integer_)));
  case Integers: return m.attrs.integers({static_cast<const int64_t*>(data_), size_});
  case Sizes: return sizesAttr(m, {static_cast<const Dim*>(data_), size_});
  case Axes: return axesAttr(m, {static_cast<const AxisRef*>(data_), size_});
  }
  return {};
}

namespace detail {

namespace {

using LiteralType = OpRecord::LiteralType;

// The dtype of a number at position `i`: the record's, or that of the first other operand that shares it.
DType dtypeOfNumber(const Builder& b, const OpRecord& record, std::span<const Arg> args, size_t i,
                    TypeId type) {
  const Module& m = b.module;
  const LiteralType own = literalTypeAt(record, i);
  if (own == LiteralType::Bool) return DType::Bool;
  if (own == LiteralType::I32) return DType::I32;
  if (own == LiteralType::Exponent && i > 0 && args[i].isInteger()) return DType::I32;
  for (size_t k = 0; k < args.size(); ++k) {
    const LiteralType other = literalTypeAt(record, k);
    if (!args[k].isNumber() && other != LiteralType::Bool && other != LiteralType::I32)
      return m.typeOf(args[k].id()).dtype;
  }
  if (!type.valid()) b.mismatch("no operand implies the dtype of a number");
  return m.types[type].dtype;
}

} // namespace

OpId append(Site site, const char* op, Operands operands, Attributes attributes, const Values* rest,
            TypeId type) {
  Builder& b = site.builder;
  Module& m = b.module;
  std::vector<Arg> args(operands);
  if (rest) args.insert(args.end(), rest->args().begin(), rest->args().end());
  std::erase_if(args, [](const Arg& a) { return !a.isNumber() && !a.id().valid(); });
  const OpKind kind = m.registry->find(op, args.size());
  const OpRecord& record = (*m.registry)[kind];
  std::vector<ValueId> ids;
  for (size_t i = 0; i < args.size(); ++i)
    ids.push_back(args[i].isNumber() ? args[i].literal(b, dtypeOfNumber(b, record, args, i, type))
                                     : args[i].id());
  AttrList list;
  for (const NamedValue& a : attributes)
    if (const AttrId value = a.value.intern(m); value.valid())
      list.push_back({m.strings.intern(a.name), value});
  return b.op(kind, ids, list, {&type, type.valid() ? 1u : 0u});
}

Expr one(Site site, const char* op, Operands operands, Attributes attributes, const Values* rest,
         TypeId type) {
  return {site.builder, site.builder.module.result(append(site, op, operands, attributes, rest, type))};
}

std::vector<Expr> all(Site site, OpId op) {
  std::vector<Expr> out;
  for (uint32_t i = 0; i < site.builder.module[op].numResults; ++i)
    out.emplace_back(site.builder, site.builder.module.result(op, i));
  return out;
}

} // namespace detail
} // namespace dtc::ops
