// The reader of traces: JSON in Chrome's format for trace events, as `dtc run --trace` writes it.
#include "dtc/Report/trace/MeasuredTrace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

namespace dtc {
namespace {

using Value = nlohmann::json;

constexpr DiagKind kSyntax{"trace-syntax", "expected a trace that `dtc run --trace` has written: {0}"};
constexpr size_t kMaxDevices = 1 << 20;

// The ranges of the elements of "traceEvents", in text that is known to be JSON.
class ElementFinder {
public:
  explicit ElementFinder(std::string_view text) : text_(text) {}

  std::vector<SourceRange> find() {
    std::vector<SourceRange> out;
    size_t depth = 0, begin = 0;
    bool within = false;
    std::string_view last; // string
    for (; at_ < text_.size(); ++at_) switch (text_[at_]) {
      case '"': last = string(); break;
      case '[':
      case '{':
        if (++depth == 2 && text_[at_] == '[' && last == "traceEvents") within = true;
        if (depth == 3) begin = at_;
        break;
      case ']':
      case '}':
        if (depth-- == 3 && within) out.push_back({number(begin), number(at_ + 1)});
        if (depth == 1) within = false;
        break;
      default: break;
      }
    return out;
  }

private:
  static uint32_t number(size_t at) { return static_cast<uint32_t>(at); }
  // From its quote to the last letter before its end.
  std::string_view string() {
    const size_t begin = ++at_;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) at_ += text_[at_] == '\\';
    return text_.substr(begin, at_ - begin);
  }

  std::string_view text_;
  size_t at_ = 0;
};

class Reader {
public:
  Reader(const SourceText& source, Diagnostics& diags) : source_(source), diags_(diags) {}

  std::optional<MeasuredTrace> read() {
    Value all;
    if (!parse(all) || !header(all) || !tracks(all["traceEvents"])) return std::nullopt;
    ranges_ = ElementFinder(source_.text).find();
    size_t index = 0;
    for (const Value& one : all["traceEvents"])
      if (!event(one, index++)) return std::nullopt;
    if (out_.events.empty()) return fail("it has no step of a device");
    finish();
    return std::move(out_);
  }

private:
  Failure fail(const std::string& why, SourceRange at = {0, 1}) {
    const auto size = static_cast<uint32_t>(source_.text.size());
    if (size == 0) at = {0, 0};
    diags_.error(kSyntax, {std::min(at.begin, size - (size > 0)), std::min(at.end, size)}, why);
    return {};
  }

  bool parse(Value& all) {
    const std::string& text = source_.text;
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) return fail("the file is empty");
    try {
      all = Value::parse(text);
    } catch (const Value::parse_error& e) {
      const size_t last = text.find_last_not_of(" \t\r\n");
      const size_t at = std::min(e.byte > 0 ? e.byte - 1 : 0, last);
      const SourceRange here{static_cast<uint32_t>(at), static_cast<uint32_t>(at + 1)};
      return fail(e.byte > text.size() ? "it ends in the middle: the file was cut off, or its run was killed"
                                       : "this is not JSON",
                  here);
    } catch (const Value::out_of_range& e) { // its message quotes the number, and has no place
      const std::string_view message = e.what();
      const size_t open = message.find('\''), close = message.rfind('\'');
      const bool quoted = open != message.npos && close > open + 1;
      const size_t at = quoted ? text.find(message.substr(open + 1, close - open - 1)) : text.npos;
      const auto begin = static_cast<uint32_t>(at == text.npos ? 0 : at);
      return fail("a number is too large", {begin, begin + 1});
    }
    return true;
  }

  static std::string textOf(const Value& object, const char* key) {
    const auto at = object.find(key);
    return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
  }
  static std::optional<double> numberOf(const Value& object, const char* key) {
    const auto at = object.find(key);
    if (at == object.end() || !at->is_number()) return std::nullopt;
    const auto v = at->get<double>();
    return std::isfinite(v) ? std::optional(v) : std::nullopt;
  }

  bool header(Value& all) {
    if (!all.is_object()) return fail("it is a list of events, which another tool has written");
    if (!all.contains("traceEvents") || !all["traceEvents"].is_array())
      return fail("it has no list \"traceEvents\"");
    const auto about = all.find("otherData");
    if (about == all.end() || !about->is_object() || textOf(*about, "dtc").empty())
      return fail("another tool has written it (\"otherData\" has no version of dtc)");
    out_.program = textOf(*about, "program"), out_.entry = textOf(*about, "entry");
    out_.backend = textOf(*about, "backend"), out_.mesh = textOf(*about, "mesh");
    out_.scheduled = textOf(*about, "scheduled");
    if (const auto at = about->find("machine"); at != about->end() && at->is_object()) {
      const auto flops = numberOf(*at, "flops_per_second"), memory = numberOf(*at, "memory_bytes_per_second");
      if (!flops || !memory || *flops <= 0 || *memory <= 0) return fail("\"machine\" has no rates above 0");
      out_.machine = {*flops, *memory};
    }
    return steps(*about);
  }

  // [[["partial %y", "mlp.dt:8"], ...] of each function]
  bool steps(const Value& about) {
    const auto all = about.find("steps");
    if (all == about.end()) return true;
    const auto isPair = [](const Value& v) {
      return v.is_array() && v.size() == 2 && v[0].is_string() && v[1].is_string();
    };
    if (!all->is_array()) return fail("\"steps\" is not a list");
    for (const Value& function : *all) {
      if (!function.is_array() || !std::ranges::all_of(function, isPair))
        return fail("\"steps\" is not a list of names and places for each function");
      std::vector<StepText>& out = out_.steps.emplace_back();
      for (const Value& one : function) out.push_back({one[0].get<std::string>(), one[1].get<std::string>()});
    }
    return true;
  }

  // The names of processes, which are devices, and of threads, which are streams.
  bool tracks(const Value& events) {
    for (const Value& e : events) {
      if (!e.is_object() || textOf(e, "ph") != "M") continue;
      const auto pid = numberOf(e, "pid"), tid = numberOf(e, "tid");
      const auto args = e.find("args");
      if (!pid || *pid < 1 || *pid > kMaxDevices || args == e.end() || !args->is_object()) continue;
      const std::string name = textOf(*args, "name");
      const auto device = static_cast<size_t>(*pid) - 1;
      if (textOf(e, "name") == "process_name") {
        if (out_.devices.size() <= device) out_.devices.resize(device + 1);
        out_.devices[device] = name.starts_with("device ") ? name.substr(7) : name;
      } else if (textOf(e, "name") == "thread_name" && tid) {
        streamOf_[{device, *tid}] = stream(name);
      }
    }
    return !out_.devices.empty() || fail("it names no device");
  }

  uint32_t stream(const std::string& name) {
    const auto at = std::ranges::find(out_.streams, name);
    if (at != out_.streams.end()) return static_cast<uint32_t>(at - out_.streams.begin());
    out_.streams.push_back(name);
    return static_cast<uint32_t>(out_.streams.size() - 1);
  }

  uint32_t word(const std::string& text) {
    const auto [at, isNew] = words_.emplace(text, static_cast<uint32_t>(out_.words.size()));
    if (isNew) out_.words.push_back(text);
    return at->second;
  }

  bool event(const Value& e, size_t index) {
    const SourceRange here = index < ranges_.size() ? ranges_[index] : SourceRange{0, 1};
    if (!e.is_object()) return fail("an event is not an object", here);
    const auto pid = numberOf(e, "pid");
    if (textOf(e, "ph") != "X" || !pid || *pid == 0) return true; // counters, arrows, the host's phases
    const auto begin = numberOf(e, "ts"), length = numberOf(e, "dur"), tid = numberOf(e, "tid");
    if (!begin || !length || *length < 0 || !tid)
      return fail("an event has no \"ts\", \"dur\" or \"tid\"", here);
    if (*pid < 1 || *pid > static_cast<double>(out_.devices.size()))
      return fail("an event is of a process that has no name", here);
    TraceEvent out;
    out.device = static_cast<size_t>(*pid) - 1;
    const auto track = streamOf_.find({out.device, *tid});
    if (track == streamOf_.end()) return fail("an event is of a thread that has no name", here);
    out.stream = track->second;
    out.name = word(textOf(e, "name"));
    // Collectives without messages, such as all_slice, are computation.
    out.message = textOf(e, "cat") == "collective" && out_.streams[out.stream].starts_with("comm ");
    out.begin = *begin * 1e-6, out.seconds = *length * 1e-6;
    const auto args = e.find("args");
    const Value none = Value::object();
    const Value& more = args != e.end() && args->is_object() ? *args : none;
    out.op = word(textOf(more, "op")), out.place = word(textOf(more, "line"));
    out.waited = std::clamp(numberOf(more, "waited_us").value_or(0) * 1e-6, 0.0, out.seconds);
    if (const auto number = numberOf(more, "statement"); number && *number >= 0 && *number < 1e15)
      out.statement = static_cast<int64_t>(*number);
    out.range = here;
    out_.events.push_back(out);
    return true;
  }

  // Time counts from the first step.
  void finish() {
    double first = out_.events[0].begin;
    for (const TraceEvent& e : out_.events) first = std::min(first, e.begin);
    for (TraceEvent& e : out_.events) {
      e.begin -= first;
      out_.seconds = std::max(out_.seconds, e.begin + e.seconds);
    }
    std::ranges::sort(out_.events, {},
                      [](const TraceEvent& e) { return std::tuple(e.device, e.begin, e.range.begin); });
  }

  const SourceText& source_;
  Diagnostics& diags_;
  MeasuredTrace out_;
  std::vector<SourceRange> ranges_;                        // by event
  std::map<std::pair<size_t, double>, uint32_t> streamOf_; // by device and thread
  std::unordered_map<std::string, uint32_t> words_;
};

} // namespace

bool looksLikeTrace(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return false;
  const bool events =
      text.find("\"traceEvents\"") != text.npos || text.find("\"displayTimeUnit\"") != text.npos;
  if (text[begin] == '{') return events;
  return text[begin] == '[' && text.find("\"ph\"") != text.npos;
}

std::optional<MeasuredTrace> readTrace(const SourceText& source, Diagnostics& diags) {
  return Reader(source, diags).read();
}

} // namespace dtc
