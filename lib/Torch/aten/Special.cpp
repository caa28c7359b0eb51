#include "aten/Aten.h"
#include "aten/Table.h"
namespace dtc {
ImportRows torchSpecialRows() { return {}; }
} // namespace dtc
