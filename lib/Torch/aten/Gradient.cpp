#include "aten/Aten.h"
#include "aten/Table.h"
namespace dtc {
ImportRows torchGradientRows() { return {}; }
} // namespace dtc
