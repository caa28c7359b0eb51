#include "read/Functional.h"
namespace dtc {
void makeFunctional(ImportFile&) {}
} // namespace dtc
