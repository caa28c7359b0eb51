#include "DiagnosticOrder.h"
#include <algorithm>

namespace dtc {
namespace {

constexpr size_t kMaxWarnings = 20;
constexpr size_t kShownColumns = 160; // ir.md

constexpr std::string_view kBold = "\x1b[1m", kRed = "\x1b[1;31m", kYellow = "\x1b[1;35m",
                           kCyan = "\x1b[1;36m", kGreen = "\x1b[1;32m", kReset = "\x1b[0m";

bool continuesCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

size_t countCharacters(std::string_view s) {
  return static_cast<size_t>(std::ranges::count_if(s, [](char c) { return !continuesCharacter(c); }));
}

struct Line {
  std::string_view text; // without its line end
  size_t begin = 0;      // byte offset in the file
};

Line lineAt(std::string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  size_t begin = offset == 0 ? 0 : text.rfind('\n', offset - 1) + 1; // npos + 1 == 0
  size_t end = text.find('\n', offset);
  if (end == std::string_view::npos) end = text.size();
  if (end > begin && text[end - 1] == '\r') --end;
  return {text.substr(begin, end - begin), begin};
}

// A window of the line in characters, so that a line of a gigabyte costs one scan and 160 columns.
struct Shown {
  std::string text;
  std::vector<size_t> offsets; // byte offset within the line of each shown column; one more for the end
  size_t lead = 0;             // columns of the "..." before
};

Shown shownPart(std::string_view line, size_t caretByte) {
  Shown s;
  const size_t total = countCharacters(line);
  const size_t caret = countCharacters(line.substr(0, caretByte));
  size_t first = 0, last = total;
  if (total > kShownColumns) {
    constexpr size_t room = kShownColumns - 6; // "..." on both sides
    first = caret > room / 2 ? caret - room / 2 : 0;
    last = std::min(total, first + room);
    first = last > room ? last - room : 0;
  }
  if (first > 0) s.text = "...", s.lead = 3;
  size_t column = 0;
  size_t i = 0;
  for (; i < line.size() && column < first; ++column)
    for (++i; i < line.size() && continuesCharacter(line[i]);) ++i;
  for (; i < line.size() && column < last; ++column) {
    s.offsets.push_back(i);
    size_t end = i + 1;
    while (end < line.size() && continuesCharacter(line[end])) ++end;
    const auto c = static_cast<unsigned char>(line[i]);
    if (c == '\t')
      s.text += ' ';
    else if (c < 0x20 || c == 0x7f || (c >= 0x80 && (c < 0xC2 || c > 0xF4)))
      s.text += '?';
    else if (c < 0x80 && end > i + 1)
      s.text += '?'; // stray continuation bytes
    else
      s.text += line.substr(i, std::min<size_t>(end - i, 4));
    i = end;
  }
  s.offsets.push_back(i);
  if (last < total) s.text += "...";
  return s;
}

std::string underline(SourceRange range, const std::vector<SourceRange>& also, const Line& line,
                      const Shown& shown) {
  std::string marks(shown.offsets.size(), ' ');
  auto mark = [&](SourceRange r, char first) {
    if (!r.valid() || r.begin < line.begin || r.begin > line.begin + line.text.size()) return;
    const size_t begin = r.begin - line.begin;
    const size_t end = std::max<size_t>(r.end - line.begin, begin + 1);
    bool started = false;
    for (size_t c = 0; c < shown.offsets.size(); ++c) {
      const size_t at = shown.offsets[c];
      if (at < begin || at >= end || (at >= line.text.size() && at != begin)) continue;
      marks[c] = !started && at == begin ? first : '~';
      started = true;
    }
  };
  for (SourceRange r : also) mark(r, '~');
  mark(range, '^');
  marks.erase(marks.find_last_not_of(' ') + 1);
  return std::string(shown.lead, ' ') + marks;
}

void renderHead(std::string& out, const SourceText& source, SourceRange range, Severity severity,
                std::string_view message, const DiagKind* kind, bool color) {
  if (color) out += kBold;
  if (range.valid()) {
    const SourcePlace place = placeOf(source, range.begin);
    out += place.file;
    out += ':' + std::to_string(place.at.line) + ':' + std::to_string(place.at.column);
  } else {
    out += source.name;
  }
  out += ": ";
  if (color) out += severity == Severity::Error ? kRed : severity == Severity::Warning ? kYellow : kCyan;
  out += severity == Severity::Error ? "error: " : severity == Severity::Warning ? "warning: " : "note: ";
  if (color) out += kReset;
  if (color && severity != Severity::Note) out += kBold;
  // The kind is appended to the first line; further lines of the message are detail.
  const size_t lineEnd = std::min(message.find('\n'), message.size());
  out += message.substr(0, lineEnd);
  if (color && severity != Severity::Note) out += kReset;
  if (kind) out += std::string(" [") + kind->id + ']';
  out += message.substr(lineEnd);
  out += '\n';
}

// The line of the range, with a caret range under it.
void renderLine(std::string& out, const SourceText& source, SourceRange range,
                const std::vector<SourceRange>& also, bool color) {
  if (!range.valid()) return;
  const Line line = lineAt(source.text, range.begin);
  const Shown shown = shownPart(line.text, std::min<size_t>(range.begin - line.begin, line.text.size()));
  out += shown.text;
  out += '\n';
  if (color) out += kGreen;
  out += underline(range, also, line, shown);
  if (color) out += kReset;
  out += '\n';
}

} // namespace

std::string Diagnostic::message() const {
  std::string out;
  for (const char* p = kind ? kind->format : ""; *p; ++p) {
    if (p[0] == '{' && p[1] >= '0' && p[1] <= '9' && p[2] == '}') {
      const auto i = static_cast<size_t>(p[1] - '0');
      if (i < args.size()) out += args[i];
      p += 2;
    } else {
      out += *p;
    }
  }
  return out;
}

Diagnostic& Diagnostics::add(Severity s, const DiagKind& kind, SourceRange range,
                             std::vector<std::string> args) {
  const bool isError = s == Severity::Error;
  const bool keep = isError ? errors_ < kMaxErrors : list_.size() - errors_ < kMaxWarnings;
  if (keep && isError) ++errors_;
  Diagnostic& d = keep ? list_.emplace_back() : (overflow_ = Diagnostic());
  d.severity = s;
  d.kind = &kind;
  d.range = range;
  d.args = std::move(args);
  return d;
}

void Diagnostics::noteSince(size_t errors, SourceRange range, const std::string& text) {
  for (Diagnostic& d : list_) {
    if (d.severity != Severity::Error) continue;
    if (errors > 0)
      --errors;
    else
      d.note(range, text);
  }
}

LineCol lineColumn(std::string_view text, uint32_t offset) {
  text = text.substr(0, std::min<size_t>(offset, text.size()));
  const size_t lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  const size_t begin = text.rfind('\n') + 1; // npos + 1 == 0
  return {static_cast<uint32_t>(lines + 1), static_cast<uint32_t>(countCharacters(text.substr(begin)) + 1)};
}

SourcePlace placeOf(const SourceText& source, uint32_t offset) {
  const auto next = std::ranges::upper_bound(source.imported, offset, {}, &SourceText::Imported::begin);
  if (next == source.imported.begin()) return {source.name, lineColumn(source.text, offset)};
  const SourceText::Imported& file = *std::prev(next);
  return {file.name, lineColumn(std::string_view(source.text).substr(file.begin), offset - file.begin)};
}

std::string placeText(const SourceText& source, SourceRange range, bool column) {
  if (!range.valid() || range.begin > source.text.size() || source.name.empty()) return "";
  const SourcePlace place = placeOf(source, range.begin);
  return std::string(place.file) + ":" + std::to_string(place.at.line) +
         (column ? ":" + std::to_string(place.at.column) : "");
}

std::vector<const Diagnostic*> byLocation(const Diagnostics& diagnostics) {
  std::vector<const Diagnostic*> out;
  for (const Diagnostic& d : diagnostics.all()) out.push_back(&d);
  // kNone is the max. Diagnostics of the same location keep their order.
  std::ranges::sort(out, {}, [](const Diagnostic* d) { return std::pair(d->range.begin, d); });
  return out;
}

std::string renderDiagnostics(const Diagnostics& diagnostics, const SourceText& source, bool color) {
  std::string out;
  for (const Diagnostic* shown : byLocation(diagnostics)) {
    const Diagnostic& d = *shown;
    renderHead(out, source, d.range, d.severity, d.message(), d.kind, color);
    renderLine(out, source, d.range, d.also, color);
    for (const Note& n : d.notes) {
      renderHead(out, source, n.range, Severity::Note, n.message, nullptr, color);
      if (n.shown) renderLine(out, source, n.range, {}, color);
    }
  }
  return out;
}

std::string_view nearestWord(std::string_view word, const std::vector<std::string_view>& candidates) {
  constexpr size_t kLongest = 64; // longer words are not typos; bounds the work on hostile input
  std::string_view best;
  if (word.size() > kLongest) return best;
  size_t bestDistance = word.size() / 3 + 1;
  std::vector<std::vector<size_t>> rows(3, std::vector<size_t>(kLongest + 1));
  for (std::string_view c : candidates) {
    if (c.size() > kLongest) continue;
    // Optimal string alignment: insertions, deletions, substitutions, swaps of neighbors.
    for (size_t j = 0; j <= c.size(); ++j) rows[0][j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      auto &now = rows[i % 3], &one = rows[(i + 2) % 3], &two = rows[(i + 1) % 3];
      now[0] = i;
      for (size_t j = 1; j <= c.size(); ++j) {
        now[j] = std::min({one[j] + 1, now[j - 1] + 1, one[j - 1] + (word[i - 1] != c[j - 1])});
        if (i > 1 && j > 1 && word[i - 1] == c[j - 2] && word[i - 2] == c[j - 1])
          now[j] = std::min(now[j], two[j - 2] + 1);
      }
    }
    const size_t distance = rows[word.size() % 3][c.size()];
    if (distance < bestDistance) bestDistance = distance, best = c;
  }
  return best;
}

} // namespace dtc
