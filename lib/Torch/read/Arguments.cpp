#include "read/Arguments.h"

#include "dtc/Files/Pt2.h"
#include "dtc/Support/Json.h"

#include <cmath>
#include <limits>

namespace dtc {

using nlohmann::json;

const json* findMember(const json& object, const char* key) {
  if (!object.is_object()) throw TorchSchemaError{std::string("expected an object with ") + key};
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const json& memberOf(const json& object, const char* key) {
  if (const json* found = findMember(object, key)) return *found;
  throw TorchSchemaError{"has an object without " + jsonString(key)};
}

const std::string& stringOf(const json& j, const char* what) {
  if (!j.is_string()) throw TorchSchemaError{std::string("has ") + what + " that is not a string"};
  return j.get_ref<const std::string&>();
}

const json& listOf(const json& object, const char* key) {
  const json& list = memberOf(object, key);
  if (!list.is_array()) throw TorchSchemaError{"has " + jsonString(key) + ", which is not a list"};
  return list;
}

int64_t integerOf(const json& j) {
  if (j.is_number_unsigned() && j.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    throw TorchSchemaError{"has an integer past 2^63-1"};
  if (!j.is_number_integer()) throw TorchSchemaError{"has a value that is not an integer"};
  return j.get<int64_t>();
}

std::pair<std::string_view, const json*> unionOf(const json& j) {
  if (!j.is_object() || j.size() != 1) throw TorchSchemaError{"has a value that is not {\"as_…\": …}"};
  const auto only = j.begin();
  return {only.key(), &*only};
}

namespace {

bool flagOf(const json& j) {
  if (!j.is_boolean()) throw TorchSchemaError{"has a value that is not a boolean"};
  return j.get<bool>();
}

// Infinity and NaN are strings.
double realOf(const json& j) {
  if (j.is_number()) return j.get<double>();
  const std::string& text = stringOf(j, "a number");
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  throw TorchSchemaError{"has a value that is not a number"};
}

template <class T, class Fn> std::vector<T> each(const json& list, const Fn& one) {
  if (!list.is_array()) throw TorchSchemaError{"has a value that is not a list"};
  std::vector<T> out;
  for (const json& j : list) out.push_back(one(j));
  return out;
}

const std::string& nameOf(const json& j) { return stringOf(memberOf(j, "name"), "a name"); }

ImportAttribute dtypeOf(const json& j) {
  const int64_t number = integerOf(j);
  if (const auto dtype = torchDType(number)) return *dtype;
  return ImportUnsupported{"is " + torchDTypeName(number) + ", which dtc lacks"};
}

// A union of a name and a number.
ImportInt symbolicInt(const json& j, const TorchNames& names) {
  const auto [key, value] = unionOf(j);
  return key == "as_name" ? names.size(stringOf(*value, "a name")) : ImportInt(integerOf(*value));
}

ImportAttribute symbolicReal(const json& j, const TorchNames& names) {
  const auto [key, value] = unionOf(j);
  if (key != "as_name") return realOf(*value);
  return names.size(stringOf(*value, "a name"));
}

ImportAttribute complexOf(const json& j) {
  Tensor out(DType::C128, {});
  out.setComplex(0, {realOf(memberOf(j, "real")), realOf(memberOf(j, "imag"))});
  return out;
}

ImportValueRef optionalTensor(const json& j, const TorchNames& names) {
  const auto [key, value] = unionOf(j);
  return key == "as_none" ? ImportValueRef() : names.tensor(nameOf(*value));
}

using Reader = ImportAttribute (*)(const json&, const TorchNames&);
struct Kind {
  std::string_view key;
  Reader read;
};

constexpr Kind kKinds[] = {
    {"as_none", [](const json&, const TorchNames&) -> ImportAttribute { return std::monostate(); }},
    {"as_tensor", [](const json& j, const TorchNames& n) -> ImportAttribute { return n.tensor(nameOf(j)); }},
    {"as_tensors",
     [](const json& j, const TorchNames& n) -> ImportAttribute {
       return each<ImportValueRef>(j, [&](const json& t) { return n.tensor(nameOf(t)); });
     }},
    {"as_optional_tensor",
     [](const json& j, const TorchNames& n) -> ImportAttribute { return optionalTensor(j, n); }},
    {"as_optional_tensors",
     [](const json& j, const TorchNames& n) -> ImportAttribute {
       return each<ImportValueRef>(j, [&](const json& t) { return optionalTensor(t, n); });
     }},
    {"as_int", [](const json& j, const TorchNames&) -> ImportAttribute { return ImportInt(integerOf(j)); }},
    {"as_ints",
     [](const json& j, const TorchNames&) -> ImportAttribute {
       return each<ImportInt>(j, [](const json& i) { return ImportInt(integerOf(i)); });
     }},
    {"as_sym_int", [](const json& j, const TorchNames& n) -> ImportAttribute { return symbolicInt(j, n); }},
    {"as_sym_ints",
     [](const json& j, const TorchNames& n) -> ImportAttribute {
       return each<ImportInt>(j, [&](const json& i) { return symbolicInt(i, n); });
     }},
    {"as_float", [](const json& j, const TorchNames&) -> ImportAttribute { return realOf(j); }},
    {"as_floats",
     [](const json& j, const TorchNames&) -> ImportAttribute { return each<double>(j, realOf); }},
    {"as_sym_float", [](const json& j, const TorchNames& n) { return symbolicReal(j, n); }},
    {"as_bool", [](const json& j, const TorchNames&) -> ImportAttribute { return flagOf(j); }},
    {"as_bools", [](const json& j, const TorchNames&) -> ImportAttribute { return each<bool>(j, flagOf); }},
    {"as_sym_bool",
     [](const json& j, const TorchNames& n) -> ImportAttribute {
       const auto [key, value] = unionOf(j);
       if (key == "as_name") return n.size(stringOf(*value, "a name"));
       return flagOf(*value);
     }},
    {"as_string",
     [](const json& j, const TorchNames&) -> ImportAttribute { return stringOf(j, "a string"); }},
    {"as_strings",
     [](const json& j, const TorchNames&) -> ImportAttribute {
       return each<std::string>(j, [](const json& s) { return stringOf(s, "a string"); });
     }},
    {"as_operator",
     [](const json& j, const TorchNames&) -> ImportAttribute { return stringOf(j, "an operator"); }},
    {"as_scalar_type", [](const json& j, const TorchNames&) { return dtypeOf(j); }},
    {"as_complex", [](const json& j, const TorchNames&) { return complexOf(j); }},
    {"as_graph", [](const json& j, const TorchNames& n) -> ImportAttribute { return n.graph(j); }},
    // dtc chooses devices and memory itself.
    {"as_device", [](const json&, const TorchNames&) -> ImportAttribute { return std::monostate(); }},
    {"as_memory_format", [](const json&, const TorchNames&) -> ImportAttribute { return std::monostate(); }},
    {"as_layout",
     [](const json& j, const TorchNames&) -> ImportAttribute {
       constexpr int64_t kStrided = 7;
       if (integerOf(j) == kStrided) return std::monostate();
       return ImportUnsupported{"is a sparse layout"};
     }},
};

} // namespace

ImportAttribute readTorchArgument(const json& argument, const TorchNames& names) {
  const auto [key, value] = unionOf(argument);
  for (const Kind& kind : kKinds)
    if (kind.key == key) return kind.read(*value, names);
  return ImportUnsupported{"is of the kind " + std::string(key.substr(0, 40))};
}

} // namespace dtc
