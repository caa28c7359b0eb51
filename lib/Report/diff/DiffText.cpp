// The report of diff as text.
#include "diff/Rows.h"
#include "dtc/Report/diff/ProgramDiff.h"
#include "dtc/Sharding/Reshard.h"
#include "dtc/Support/Units.h"
#include "explain/ReportText.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace dtc {

namespace {

std::string sign(double change) { return change < 0 ? "-" : "+"; }

std::string timeChange(double a, double b) {
  return same(a, b) ? "" : sign(b - a) + timeText(std::abs(b - a));
}

// Differences of sums up to 2^63 - 1.
std::string bytesChange(int64_t a, int64_t b) {
  return a == b ? "" : sign(b < a ? -1 : 1) + bytesText(b < a ? a - b : b - a);
}

std::string signedBytes(int64_t bytes) {
  return (bytes < 0 ? "-" : "") + bytesText(bytes < 0 ? -bytes : bytes);
}

std::string countChange(int64_t a, int64_t b) {
  return a == b ? "" : (b < a ? "" : "+") + std::to_string(b - a);
}

std::string percent(double a, double b) {
  if (same(a, b)) return "";
  if (a == 0) return "new";
  if (b > a * 100) return "x" + significant(b / a);
  return sign(b - a) + significant(std::abs(b - a) / a * 100) + " %";
}

size_t charactersOf(std::string_view s) {
  return static_cast<size_t>(std::ranges::count_if(s, [](char c) { return (c & 0xc0) != 0x80; }));
}

class Writer {
public:
  explicit Writer(const DiffTextOptions& o) : o_(o) {}
  std::string out;

  void heading(const std::string& text) { out += "\n" + styled("\x1b[1m", wrapped(text, 0)) + "\n"; }
  void line(const std::string& text, size_t indent) { out += wrapped(text, indent) + "\n"; }

  // Numbers in columns, then a text that is wrapped beside them.
  void rows(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& cells,
            const std::vector<std::string>& texts) {
    std::vector<size_t> widths;
    for (size_t c = 0; c < titles.size(); ++c) {
      size_t width = 0;
      for (const auto& row : cells) width = std::max(width, charactersOf(row[c]));
      widths.push_back(width == 0 ? 0 : std::max(width, titles[c].size())); // an empty column is left out
    }
    std::string head = "  ";
    for (size_t c = 0; c < titles.size(); ++c)
      if (widths[c] > 0) head += padded(titles[c], widths[c]) + "  ";
    const size_t indent = head.size();
    if (!titles.empty()) out += head.substr(0, head.find_last_not_of(' ') + 1) + "\n";
    for (size_t r = 0; r < cells.size(); ++r) {
      out += "  ";
      for (size_t c = 0; c < titles.size(); ++c)
        if (widths[c] > 0) out += amount(padded(cells[r][c], widths[c])) + "  ";
      out += wrapped(texts[r], indent).substr(std::min(indent, wrapped(texts[r], indent).size())) + "\n";
    }
  }

  // "and 12 more (--full)"
  void rest(size_t hidden, const std::string& more = "") {
    if (hidden > 0)
      out += "  and " + std::to_string(hidden) + " more" + more + "  (--top N shows N, --full all)\n";
  }

  size_t shown(size_t count) const { return std::min(count, o_.top); }

private:
  static std::string padded(const std::string& text, size_t width) {
    const size_t have = charactersOf(text);
    return std::string(width > have ? width - have : 0, ' ') + text;
  }

  std::string styled(const char* style, const std::string& text) const {
    return o_.color ? style + text + "\x1b[0m" : text;
  }

  // Growth in red, a decrease in green.
  std::string amount(const std::string& cell) const {
    const size_t first = cell.find_first_not_of(' ');
    if (first == cell.npos || (cell[first] != '+' && cell[first] != '-')) return cell;
    return styled(cell[first] == '+' ? "\x1b[31m" : "\x1b[32m", cell);
  }

  // Breaks lines at blanks; continued lines are indented by two more. A longer word stays in one piece.
  std::string wrapped(const std::string& text, size_t indent) const {
    std::string result(indent, ' '), word;
    size_t column = indent;
    bool fresh = true;
    const auto flush = [&](size_t blanks) {
      const size_t width = charactersOf(word);
      if (!fresh && column + blanks + width > o_.width) {
        result += "\n" + std::string(indent + 2, ' ');
        column = indent + 2;
      } else if (!fresh) {
        result.append(blanks, ' ');
        column += blanks;
      }
      result += word;
      column += width, fresh = false;
      word.clear();
    };
    size_t blanks = 0;
    for (size_t i = 0; i < text.size();) {
      // "5 %" stays in one piece
      const bool unit =
          text[i] == ' ' && text.compare(i, 2, " %") == 0 &&
          (i + 2 >= text.size() || std::string_view(" ),").find(text[i + 2]) != std::string_view::npos);
      if (text[i] != ' ' || unit) {
        word += text[i++];
        if (i < text.size()) continue;
      }
      if (!word.empty()) flush(blanks);
      blanks = 0;
      while (i < text.size() && text[i] == ' ') ++i, ++blanks;
    }
    return result;
  }

  const DiffTextOptions& o_;
};

// "%138": a name that the text does not have.
bool isNumber(std::string_view name) {
  return name.starts_with("%") && name.find_first_not_of("0123456789", 1) == name.npos;
}

std::string times(size_t count) { return count > 1 ? ", x" + std::to_string(count) : ""; }
std::string placed(const std::string& location) { return location.empty() ? "" : "  (" + location + ")"; }
std::string plural(size_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

// "a -> b"; of long texts the part that differs.
std::string changeText(std::string a, std::string b) {
  constexpr size_t kLong = 70, kContext = 16;
  if (a.size() > kLong || b.size() > kLong) {
    size_t head = 0, tail = 0;
    const size_t shorter = std::min(a.size(), b.size());
    while (head < shorter && a[head] == b[head]) ++head;
    while (tail < shorter - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
    for (std::string* text : {&a, &b}) {
      if (tail > kContext) text->replace(text->size() - tail + kContext, tail - kContext, "...");
      if (head > kContext) text->replace(0, head - kContext, "...");
      if (text->size() > kLong * 2)
        *text = text->substr(0, kLong) + "..." + text->substr(text->size() - kLong);
    }
  }
  return a + " -> " + b;
}

std::string causeText(const DiffCause& c) {
  const std::string change = changeText(c.before, c.after);
  const std::string what = c.op.empty() || c.kind == DiffCause::Op ? c.what : c.op + " " + c.what;
  const std::string more = times(c.count) + placed(c.location);
  switch (c.kind) {
  case DiffCause::Setting: return c.what + ": " + change;
  case DiffCause::Annotation: return what + ": " + change + more;
  case DiffCause::Attributes: return what + ": " + change + more;
  case DiffCause::Op: return what + ": op " + change + more;
  case DiffCause::Operands: return what + ": operands " + change + more;
  case DiffCause::Type: return what + ": " + change + more;
  case DiffCause::Added:
  case DiffCause::Removed: break;
  }
  const bool added = c.kind == DiffCause::Added;
  if (c.op == "layer")
    return std::string(added ? "added " : "removed ") + (c.count == 1 ? "layer " : "layers ") + c.what +
           ": " + plural(c.statements, "statement") + placed(c.location);
  const std::string& text = added ? c.after : c.before;
  const size_t each = c.op == "function" ? 1 : c.statements / c.count;
  std::string out = added ? "added " : "removed ";
  if (each > 1)
    out += plural(each, "statement") + ", first " + c.what + ": " + text;
  else if (c.op == "argument" || c.op == "result" || c.op == "function")
    out += c.op + " " + c.what + ": " + text;
  else
    out += c.what + " = " + text;
  return out + more;
}

class Report {
public:
  Report(const ProgramDiff& d, const DiffTextOptions& o) : d_(d), w_(o) {}

  std::string run() {
    headline();
    causes();
    shardings();
    const bool onlyCauses = d_.shardings.empty() && d_.collectives.empty() && d_.computations.empty() &&
                            d_.buffers.empty() && d_.types == 0 && d_.generated == 0 &&
                            same(d_.a.seconds, d_.b.seconds);
    if (d_.comparesCosts && d_.comparesStatements && onlyCauses && !d_.causes.empty()) {
      w_.heading(d_.noMemory.empty()
                     ? "nothing follows: shardings, collectives, computation and memory are equal"
                     : "nothing follows: shardings, collectives and computation are equal");
      notes();
    } else if (d_.comparesCosts) {
      collectives();
      computations();
      buffers();
      tables();
      totals();
    }
    return std::move(w_.out);
  }

private:
  std::string tag(int cause) const {
    return cause == kNoCause || d_.causes.size() < 2 ? "" : "  [" + std::to_string(cause + 1) + "]";
  }

  static std::string between(const std::string& a, const std::string& b, const std::string& change) {
    return a == b ? a : a + " -> " + b + (change.empty() ? "" : " (" + change + ")");
  }

  static std::string peakText(const DiffTotals& t) {
    return t.peakBytes ? bytesText(*t.peakBytes) : "unknown";
  }

  void headline() {
    std::string text = d_.nameA + " -> " + d_.nameB;
    if (d_.versionA != d_.versionB && !d_.versionA.empty() && !d_.versionB.empty())
      text += " (dtc " + d_.versionA + " -> " + d_.versionB + ")";
    if (d_.comparesCosts) {
      const DiffTotals &a = d_.a, &b = d_.b;
      if (d_.empty()) text += ": nothing changed";
      text += "\nreceived " +
              between(bytesText(a.receivedBytes), bytesText(b.receivedBytes),
                      percent(static_cast<double>(a.receivedBytes), static_cast<double>(b.receivedBytes)));
      text += ", time " + between(timeText(a.seconds), timeText(b.seconds), percent(a.seconds, b.seconds));
      if (a.peakBytes || b.peakBytes)
        text += ", memory " + between(peakText(a), peakText(b),
                                      a.peakBytes && b.peakBytes ? percent(static_cast<double>(*a.peakBytes),
                                                                           static_cast<double>(*b.peakBytes))
                                                                 : "");
    } else {
      text += d_.empty() ? ": no statement changed; a program did not compile"
                         : ": a program did not compile, so that only statements are compared";
    }
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      w_.line(text.substr(begin, end - begin), 0);
      begin = end + 1;
    }
    if (!d_.comparesStatements)
      w_.line("statements and shardings are not compared: a report of `dtc explain` has none", 0);
  }

  void causes() {
    if (d_.causes.empty()) return;
    w_.heading("changed");
    const std::vector<size_t> shown = weightiest(w_.shown(d_.causes.size()));
    for (size_t i : shown) {
      const std::string number = d_.causes.size() < 2 ? "" : std::to_string(i + 1) + ". ";
      w_.line(number + causeText(d_.causes[i]), 2);
    }
    w_.rest(d_.causes.size() - shown.size());
  }

  // The causes from which most time follows, in their order; of equal ones, those with more statements.
  std::vector<size_t> weightiest(size_t count) const {
    std::vector<double> seconds(d_.causes.size(), 0);
    const auto add = [&](int cause, double change) {
      if (cause != kNoCause) seconds[static_cast<size_t>(cause)] += std::abs(change);
    };
    for (const DiffCollective& c : d_.collectives) add(c.cause, c.b.seconds - c.a.seconds);
    for (const DiffComputation& c : d_.computations) add(c.cause, c.b - c.a);
    std::vector<size_t> order(d_.causes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (count >= order.size()) return order;
    std::ranges::sort(order, {}, [&](size_t i) {
      return std::tuple(-seconds[i], -static_cast<double>(d_.causes[i].statements), i);
    });
    order.resize(count);
    std::ranges::sort(order);
    return order;
  }

  void shardings() {
    size_t count = 0;
    for (const DiffSharding& s : d_.shardings) count += s.count;
    std::string title = count > 0 ? plural(count, "sharding") : "";
    if (d_.types > 0) title += (title.empty() ? "" : ", ") + plural(d_.types, "type");
    if (title.empty()) return;
    w_.heading("what follows: " + title);
    const size_t shown = w_.shown(d_.shardings.size());
    for (size_t i = 0; i < shown; ++i) {
      const DiffSharding& s = d_.shardings[i];
      w_.line(s.op + " " + s.what + ": " + s.before + " -> " + s.after + times(s.count) + placed(s.location) +
                  tag(s.cause),
              2);
    }
    w_.rest(d_.shardings.size() - shown);
  }

  static bool moves(const DiffCollective& c) {
    return c.kindA != c.kindB || c.axesA != c.axesB || c.a.bytes != c.b.bytes ||
           c.a.messages != c.b.messages || !same(c.a.seconds, c.b.seconds);
  }

  static std::string collectiveText(const DiffCollective& c) {
    const auto one = [](const std::string& kind, const std::string& axes) {
      return axes.empty() ? kind : kind + " over " + axes;
    };
    const std::string a = one(c.kindA, c.axesA), b = one(c.kindB, c.axesB);
    std::string out = c.kindA.empty()   ? "added " + b
                      : c.kindB.empty() ? "removed " + a
                      : a == b          ? a
                                        : a + " -> " + b;
    if (c.bytesA != c.bytesB && !c.kindA.empty() && !c.kindB.empty())
      out += ", " + bytesText(c.bytesA) + " -> " + bytesText(c.bytesB) + (c.count > 1 ? " each" : "");
    out += times(c.count) + (c.what.empty() ? "" : ": " + c.what);
    if (!c.op.empty()) out += ", '" + c.op + "'";
    return out + placed(c.location);
  }

  void collectives() {
    std::vector<const DiffCollective*> moved;
    size_t others = 0;
    double exposedA = 0, exposedB = 0;
    for (const DiffCollective& c : d_.collectives) {
      if (moves(c)) {
        moved.push_back(&c);
      } else {
        others += c.count, exposedA += c.a.exposed, exposedB += c.b.exposed;
      }
    }
    const bool waits = others > 0 && !same(exposedA, exposedB);
    if (moved.empty() && !waits) return;
    w_.heading("collectives");
    std::vector<std::vector<std::string>> cells;
    std::vector<std::string> texts;
    for (size_t i = 0; i < w_.shown(moved.size()); ++i) {
      const DiffCollective& c = *moved[i];
      cells.push_back({timeChange(c.a.seconds, c.b.seconds), bytesChange(c.a.bytes, c.b.bytes),
                       countChange(c.a.messages, c.b.messages)});
      texts.push_back(collectiveText(c) + tag(c.cause));
    }
    if (!cells.empty()) w_.rows({"time", "received", "messages"}, cells, texts);
    w_.rest(moved.size() - cells.size());
    if (waits)
      w_.line(plural(others, "other collective") + (others == 1 ? " waits " : " wait ") +
                  timeChange(exposedA, exposedB) + (exposedA < exposedB ? " longer" : "") +
                  " for overlapped computation",
              2);
  }

  void computations() {
    if (d_.computations.empty()) return;
    w_.heading("computation of one device");
    std::vector<std::vector<std::string>> cells;
    std::vector<std::string> texts;
    for (size_t i = 0; i < w_.shown(d_.computations.size()); ++i) {
      const DiffComputation& c = d_.computations[i];
      cells.push_back({timeChange(c.a, c.b), percent(c.a, c.b)});
      texts.push_back((c.op.empty()         ? ""
                       : c.op == "argument" ? "reshard of argument "
                                            : c.op + " ") +
                      c.what + times(c.count) + placed(c.location) + tag(c.cause));
    }
    w_.rows({"time", ""}, cells, texts);
    double rest = 0;
    for (size_t i = cells.size(); i < d_.computations.size(); ++i)
      rest += d_.computations[i].b - d_.computations[i].a;
    w_.rest(d_.computations.size() - cells.size(), ": " + sign(rest) + timeText(std::abs(rest)));
  }

  void buffers() {
    if (d_.buffers.empty()) return;
    w_.heading("memory at the peak");
    std::vector<std::vector<std::string>> cells;
    std::vector<std::string> texts;
    for (size_t i = 0; i < w_.shown(d_.buffers.size()); ++i) {
      const DiffBuffer& r = d_.buffers[i];
      cells.push_back({bytesChange(r.a, r.b)});
      const std::string type = r.typeA == r.typeB || r.typeA.empty() || r.typeB.empty()
                                   ? (r.typeB.empty() ? r.typeA : r.typeB)
                                   : r.typeA + " -> " + r.typeB;
      const bool gaps = r.kind == "gaps";
      texts.push_back(gaps ? "between buffers"
                           : r.kind + " " + (isNumber(r.what) ? "" : r.what + ": ") + type + times(r.count) +
                                 (r.typeA.empty() ? ", not live before" : "") +
                                 (r.typeB.empty() ? ", no longer live" : "") + placed(r.location));
    }
    w_.rows({"bytes"}, cells, texts);
    int64_t rest = 0;
    for (size_t i = cells.size(); i < d_.buffers.size(); ++i) rest += d_.buffers[i].b - d_.buffers[i].a;
    w_.rest(d_.buffers.size() - cells.size(), ": " + bytesChange(0, rest));
  }

  void tables() {
    const auto table = [&](const char* title, const std::vector<DiffRow>& rows, bool always) {
      if (rows.empty() || (rows.size() == 1 && !always)) return;
      w_.heading(title);
      std::vector<std::vector<std::string>> cells;
      std::vector<std::string> texts;
      for (const DiffRow& r : rows) {
        cells.push_back({timeChange(r.a.seconds, r.b.seconds), bytesChange(r.a.bytes, r.b.bytes),
                         countChange(r.a.messages, r.b.messages)});
        texts.push_back(r.label.empty() ? "elsewhere" : r.label);
      }
      w_.rows({"time", "received", "messages"}, cells, texts);
    };
    std::vector<DiffRow> moved[3];
    const std::vector<DiffRow>* all[] = {&d_.axes, &d_.kinds, &d_.layers};
    for (size_t k = 0; k < 3; ++k)
      std::ranges::copy_if(*all[k], std::back_inserter(moved[k]), [](const DiffRow& r) {
        return r.a.bytes != r.b.bytes || r.a.messages != r.b.messages || !same(r.a.seconds, r.b.seconds);
      });
    table("by mesh axis", moved[0], false);
    table("by collective", moved[1], false);
    table("by layer", moved[2],
          moved[2].size() == 1 && !moved[2][0].label.empty() && d_.collectives.size() > 1);
    table("messages of the schedule, by kind", d_.scheduleKinds, true);
  }

  void totals() {
    if (d_.empty()) return;
    struct Row {
      std::string name, a, b, change, share;
    };
    std::vector<Row> rows = {{"", "A", "B", "change", ""}};
    const auto time = [&](const std::string& name, double a, double b) {
      if (a == 0 && b == 0) return;
      const bool negative = a < 0 || b < 0;
      const auto text = [](double v) { return (v < 0 ? "-" : "") + timeText(std::abs(v)); };
      rows.push_back({name, text(a), text(b), timeChange(a, b), negative ? "" : percent(a, b)});
    };
    const auto bytes = [&](const char* name, int64_t a, int64_t b) {
      rows.push_back({name, bytesText(a), bytesText(b), bytesChange(a, b),
                      percent(static_cast<double>(a), static_cast<double>(b))});
    };
    const DiffSums &a = d_.a.communication, &b = d_.b.communication;
    const std::string ofStages = d_.hasStages ? ", of all stages" : "";
    rows.push_back({"messages" + ofStages, std::to_string(a.messages), std::to_string(b.messages),
                    countChange(a.messages, b.messages),
                    percent(static_cast<double>(a.messages), static_cast<double>(b.messages))});
    bytes("received in them", a.bytes, b.bytes);
    if (d_.a.scheduleBytes != 0 || d_.b.scheduleBytes != 0)
      rows.push_back({"less or more in the schedule", signedBytes(d_.a.scheduleBytes),
                      signedBytes(d_.b.scheduleBytes), bytesChange(d_.a.scheduleBytes, d_.b.scheduleBytes),
                      ""});
    bytes("received", d_.a.receivedBytes, d_.b.receivedBytes);
    time("communication" + ofStages, a.seconds, b.seconds);
    time("not overlapped" + ofStages, a.exposed, b.exposed);
    time("computation" + ofStages, d_.a.computeSeconds, d_.b.computeSeconds);
    time("fusion, overlap, waits", d_.a.scheduleSeconds, d_.b.scheduleSeconds);
    time("time", d_.a.seconds, d_.b.seconds);
    if (d_.a.peakBytes && d_.b.peakBytes)
      bytes("memory", *d_.a.peakBytes, *d_.b.peakBytes);
    else if (d_.a.peakBytes || d_.b.peakBytes)
      rows.push_back({"memory", peakText(d_.a), peakText(d_.b), "", ""});
    w_.heading("total, per device");
    size_t widths[5] = {};
    for (const Row& r : rows) {
      const std::string* cells[] = {&r.name, &r.a, &r.b, &r.change, &r.share};
      for (size_t c = 0; c < 5; ++c) widths[c] = std::max(widths[c], cells[c]->size());
    }
    for (const Row& r : rows) {
      std::string line = "  " + r.name + std::string(widths[0] - r.name.size(), ' ');
      for (const auto& [cell, width] :
           {std::pair(&r.a, widths[1]), {&r.b, widths[2]}, {&r.change, widths[3]}, {&r.share, widths[4]}})
        line += "  " + std::string(width - cell->size(), ' ') + *cell;
      w_.out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    notes();
  }

  void notes() {
    if (!d_.noMemory.empty()) w_.line("memory is unknown: " + d_.noMemory, 2);
    if (!d_.complete)
      w_.line("sizes or iteration counts are unknown before the run: a symbolic size counts as " +
                  std::to_string(kNominalSymbol) +
                  ", another unknown size as nothing, an unknown loop as one iteration",
              2);
    if (d_.beforeSchedule)
      w_.line("a program has no schedule: times and received bytes of both are sums before it", 2);
  }

  const ProgramDiff& d_;
  Writer w_;
};

} // namespace

std::string diffText(const ProgramDiff& d, const DiffTextOptions& options) {
  return Report(d, options).run();
}

} // namespace dtc
