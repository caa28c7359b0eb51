// The reader of logs.
#include "dtc/Report/view/ViewMetrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

namespace dtc {
namespace {

constexpr DiagKind kSyntax{"log-syntax",
                           "expected a line of JSON with a \"step\", as `dtc run --log` writes: {0}"};
constexpr DiagKind kOrder{"log-order", "step {0} follows step {1}, but the steps of a run increase{2}"};
constexpr size_t kMaxMetrics = 256, kMaxDepth = 64;

std::optional<double> nonFinite(std::string_view text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return kInfinity;
  if (text == "-inf") return -kInfinity;
  return std::nullopt;
}

// The numbers of one line, which are the direct members of an object. Other values are skipped.
class LineReader {
public:
  std::vector<std::pair<std::string, double>> numbers;
  std::optional<int64_t> step;
  std::string problem; // of the syntax; the column follows
  size_t at = 0;       // of the problem, in the line

  bool null() { return value(); }
  bool boolean(bool) { return value(); }
  bool number_integer(int64_t v) { return number(static_cast<double>(v), v); }
  bool number_unsigned(uint64_t v) {
    return number(static_cast<double>(v),
                  v <= INT64_MAX ? std::optional(static_cast<int64_t>(v)) : std::nullopt);
  }
  bool number_float(double v, const std::string&) { return number(v, std::nullopt); }
  bool string(const std::string& text) {
    const auto v = depth_ == 1 ? nonFinite(text) : std::nullopt;
    return v ? number(*v, std::nullopt) : value();
  }
  bool binary(const std::vector<uint8_t>&) { return value(); }
  bool start_object(size_t) { return nest(); }
  bool start_array(size_t) { return value() && nest(); }
  bool end_object() { return --depth_, true; }
  bool end_array() { return --depth_, true; }
  bool key(const std::string& name) { return depth_ == 1 ? void(key_ = name) : void(), true; }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    return refuse("this is not JSON", position > 0 ? position - 1 : 0);
  }

private:
  bool refuse(const char* what, size_t position) {
    problem = what;
    at = position;
    return false;
  }
  bool nest() { return ++depth_ <= kMaxDepth || refuse("it is nested too deeply", 0); }
  bool value() { return depth_ > 0 || refuse("it is not an object", 0); }
  bool number(double v, std::optional<int64_t> whole) {
    if (depth_ != 1) return value();
    if (key_ == "step")
      step = whole;
    else
      numbers.emplace_back(key_, v);
    return true;
  }

  size_t depth_ = 0;
  std::string key_;
};

class LogReader {
public:
  LogReader(const SourceText& source, Diagnostics& diags) : source_(source), diags_(diags) {
    run_.name = source.name;
  }

  std::optional<MetricRun> read() {
    const std::string_view text = source_.text;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = text.substr(begin, end - begin);
      const bool blank = line.find_first_not_of(" \t\r") == line.npos;
      if (!blank && !add(line, begin, end == text.size())) return std::nullopt;
      begin = end + 1;
    }
    if (run_.metrics.empty() && run_.steps == 0)
      return diags_.fail(kSyntax, {0, static_cast<uint32_t>(std::min<size_t>(text.size(), 1))},
                         "the log has no step");
    return std::move(run_);
  }

private:
  bool add(std::string_view line, size_t begin, bool last) {
    LineReader reader;
    (void)nlohmann::json::sax_parse(line, &reader);
    const auto here = static_cast<uint32_t>(begin), end = static_cast<uint32_t>(begin + line.size());
    if (!reader.problem.empty()) {
      // A run that is killed, or goes on, may leave a line without its end.
      if (last && line.starts_with('{') && reader.at + 1 >= line.size()) return run_.incomplete = true;
      const uint32_t at = std::min(here + static_cast<uint32_t>(reader.at), end - 1);
      return diags_.fail(kSyntax, {at, at + 1}, reader.problem);
    }
    if (!reader.step || *reader.step < 0)
      return diags_.fail(kSyntax, {here, end}, "it has no whole \"step\"");
    if (any_ && *reader.step <= run_.steps)
      return diags_.fail(kOrder, {here, end}, *reader.step, run_.steps,
                         *reader.step == 1 ? "; draw runs from a file each: dtc view a.jsonl b.jsonl" : "");
    any_ = true;
    run_.steps = *reader.step;
    for (auto& [name, value] : reader.numbers)
      if (!put(name, value))
        return diags_.fail(kSyntax, {here, end},
                           "it has more than " + std::to_string(kMaxMetrics) + " metrics");
    return true;
  }

  bool put(const std::string& name, double value) {
    const auto [at, fresh] = index_.emplace(name, run_.metrics.size());
    if (fresh && run_.metrics.size() == kMaxMetrics) return false;
    if (fresh) run_.metrics.push_back({name, {}});
    auto& points = run_.metrics[at->second].points;
    if (!points.empty() && points.back().step == run_.steps)
      points.back().value = value; // named twice in a line: the last one counts, as in JSON
    else
      points.push_back({run_.steps, value});
    return true;
  }

  const SourceText& source_;
  Diagnostics& diags_;
  MetricRun run_;
  std::unordered_map<std::string, size_t> index_; // of a metric, by name
  bool any_ = false;                              // a line with a step
};

} // namespace

const Metric* MetricRun::find(std::string_view metric) const {
  const auto found = std::ranges::find(metrics, metric, &Metric::name);
  return found == metrics.end() ? nullptr : &*found;
}

bool looksLikeMetrics(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  const std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
  return line.starts_with('{') && line.find("\"step\"") != line.npos;
}

std::optional<MetricRun> readMetrics(const SourceText& source, Diagnostics& diags) {
  return LogReader(source, diags).read();
}

} // namespace dtc
