#include "aten/Aten.h"
#include "aten/Table.h"
namespace dtc {
ImportRows torchControlRows() { return {}; }
} // namespace dtc
