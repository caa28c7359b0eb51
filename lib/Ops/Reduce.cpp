#include "dtc/Ops/Reduce.h"

namespace dtc {

Expr reduced(PendingKind kind, Expr x, const ops::SumArgs& args) {
  switch (kind) {
  case PendingKind::Prod: return prod(x, {.dims = args.dims, .keepdim = args.keepdim});
  case PendingKind::Max: return max(x, {.dims = args.dims, .keepdim = args.keepdim});
  case PendingKind::Min: return min(x, {.dims = args.dims, .keepdim = args.keepdim});
  case PendingKind::Any: return any(x, {.dims = args.dims, .keepdim = args.keepdim});
  case PendingKind::All: return all(x, {.dims = args.dims, .keepdim = args.keepdim});
  default: return sum(x, args);
  }
}

} // namespace dtc
