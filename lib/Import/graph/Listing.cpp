#include "dtc/Import/graph/Listing.h"

#include "dtc/IR/text/Text.h"

namespace dtc {
namespace {

constexpr size_t kMaxListed = 8, kMaxText = 60;

class Writer {
public:
  Writer(const Module& m, ImportFile& file) : m_(m), file_(file) {}

  std::string run() {
    for (ImportGraph& g : file_.graphs) graph(g);
    return std::move(out_);
  }

private:
  void graph(ImportGraph& g) {
    out_ += (out_.empty() ? "graph " : "\ngraph ") + printable(g.name) + ":\n";
    for (ImportInput& i : g.inputs) {
      out_ += "  input ";
      i.range = written([&] { out_ += declared(i.value); });
      if (!i.name.empty()) out_ += "  # " + printable(i.name);
      out_ += "\n";
    }
    for (ImportNode& n : g.nodes) {
      out_ += "  ";
      for (size_t i = 0; i < n.results.size(); ++i) out_ += (i ? ", " : "") + declared(n.results[i]);
      out_ += n.results.empty() ? "" : " = ";
      n.range = written([&] { out_ += printable(n.written.empty() ? n.target : n.written); });
      out_ += "(";
      for (size_t i = 0; i < n.arguments.size(); ++i) {
        const ImportArgument& a = n.arguments[i];
        const bool isValue = std::holds_alternative<ImportValueRef>(a.value);
        out_ += (i ? ", " : "") + (a.name.empty() || isValue ? "" : printable(a.name) + "=") + text(a.value);
      }
      out_ += ")";
      if (!n.location.empty() || !n.name.empty())
        out_ += "  # " + printable(n.location) + (n.location.empty() || n.name.empty() ? "" : " ") +
                printable(n.name);
      out_ += "\n";
    }
    for (ImportOutput& o : g.outputs) {
      out_ += "  output ";
      o.range = written([&] { out_ += text(o.value); });
      if (o.carriedTo) out_ += "  # the next " + printable(g.inputs[*o.carriedTo].name);
      out_ += "\n";
    }
  }

  template <class Fn> SourceRange written(Fn&& write) {
    const auto begin = static_cast<uint32_t>(out_.size());
    write();
    return {begin, static_cast<uint32_t>(out_.size())};
  }

  // Names of a file, without control characters, which would break lines.
  static std::string printable(std::string_view name) {
    std::string out;
    for (char c : name.substr(0, 200))
      out.push_back(static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c);
    return out;
  }
  std::string declared(ImportValueRef ref) {
    if (!ref.valid()) return "_";
    const ImportValue& v = file_.values[ref.index];
    std::string out = "%" + printable(v.name);
    if (!v.type) return out;
    out += " : " + std::string(dtypeName(v.type->dtype)) + "[";
    for (size_t i = 0; i < v.type->dims.size(); ++i)
      out += (i ? ", " : "") + printDim(v.type->dims[i], m_.dims, m_.strings);
    return out + "]";
  }

  std::string one(ImportValueRef v) {
    return v.valid() ? "%" + printable(file_.values[v.index].name) : "none";
  }
  static std::string one(bool b) { return b ? "true" : "false"; }
  std::string one(const ImportInt& i) {
    if (i.value.valid()) return one(i.value);
    if (!i.expression.empty()) return printable(i.expression);
    return i.size ? printDim(*i.size, m_.dims, m_.strings) : std::to_string(i.number);
  }
  static std::string one(double d) { return printFloat(d); }
  static std::string one(const std::string& s) {
    return "\"" + printable(s.substr(0, kMaxText)) + (s.size() > kMaxText ? "…\"" : "\"");
  }
  static std::string one(DType d) { return std::string(dtypeName(d)); }
  static std::string one(std::monostate) { return "none"; }
  static std::string one(const Tensor& t) {
    return "<" + std::to_string(t.numElements()) + " elements of " + std::string(dtypeName(t.dtype())) + ">";
  }
  std::string one(ImportGraphRef g) { return "graph " + printable(file_.graphs[g.index].name); }
  static std::string one(const ImportUnsupported&) { return "?"; }
  template <class T> std::string one(const std::vector<T>& list) {
    std::string out = "[";
    for (size_t i = 0; i < list.size() && i < kMaxListed; ++i) out += (i ? ", " : "") + one(T(list[i]));
    return out + (list.size() > kMaxListed ? ", …]" : "]");
  }
  std::string text(const ImportAttribute& a) {
    return std::visit([&](const auto& value) { return one(value); }, a);
  }

  const Module& m_;
  ImportFile& file_;
  std::string out_;
};

} // namespace

std::string writeListing(const Module& m, ImportFile& file) { return Writer(m, file).run(); }

} // namespace dtc
