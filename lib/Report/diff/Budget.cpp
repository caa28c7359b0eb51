// Limits that a pull request must keep.
#include "dtc/Report/diff/ProgramDiff.h"
#include "dtc/Support/Units.h"
#include "dtc/Support/Words.h"
#include "explain/ReportText.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace dtc {

namespace {

struct Unit {
  const char* name;
  double seconds;
};
constexpr Unit kTimes[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
constexpr const char* kFlags[] = {"--max-bytes", "--max-time", "--max-memory"};

std::optional<double> parseTime(std::string_view text) {
  const std::optional<double> number = takeNumber<double>(text);
  text = trimmed(text);
  for (const Unit& u : kTimes)
    if (number && text == u.name) return *number * u.seconds;
  return number && *number == 0 && text.empty() ? number : std::nullopt;
}

std::string amountText(DiffBudget::Of of, double amount) {
  return of == DiffBudget::Time ? timeText(amount) : bytesText(static_cast<int64_t>(std::min(amount, 9e18)));
}

// In the unit of timeText, or in bytes.
std::string exactText(DiffBudget::Of of, double amount, int digits) {
  if (of != DiffBudget::Time) return std::to_string(std::llround(std::min(amount, 9e18))) + " B";
  const Unit* unit = std::ranges::find_if(kTimes, [&](const Unit& u) { return amount < u.seconds * 1e3; });
  if (unit == std::end(kTimes)) --unit;
  return significant(amount / unit->seconds, digits) + " " + unit->name;
}

// With as many digits as tell them apart: "9.304 us" and "9.3 us".
std::vector<std::string> amountTexts(DiffBudget::Of of, const std::vector<double>& amounts) {
  const auto isDistinct = [&](const std::vector<std::string>& texts) {
    for (size_t i = 0; i < texts.size(); ++i)
      for (size_t k = 0; k < i; ++k)
        if (amounts[i] != amounts[k] && texts[i] == texts[k]) return false;
    return true;
  };
  std::vector<std::string> out;
  for (double a : amounts) out.push_back(amountText(of, a));
  constexpr int kMostDigits = 17;
  for (int digits = 3; !isDistinct(out) && digits <= kMostDigits; ++digits)
    for (size_t i = 0; i < out.size(); ++i) out[i] = exactText(of, amounts[i], digits);
  return out;
}

// With as many digits as tell it from the limit.
std::string percentText(double percent, double limit) {
  constexpr int kMostDigits = 17;
  int digits = 3;
  while (digits < kMostDigits && percent != limit &&
         significant(percent, digits) == significant(limit, digits))
    ++digits;
  return significant(percent, digits);
}

struct Amounts {
  const char* what;
  std::optional<double> a, b;
};

Amounts amountsOf(DiffBudget::Of of, const ProgramDiff& d) {
  const auto number = [](const std::optional<int64_t>& v) {
    return v ? std::optional(static_cast<double>(*v)) : std::nullopt;
  };
  switch (of) {
  case DiffBudget::Bytes:
    return {"number of received bytes", static_cast<double>(d.a.receivedBytes),
            static_cast<double>(d.b.receivedBytes)};
  case DiffBudget::Time: return {"time", d.a.seconds, d.b.seconds};
  case DiffBudget::Memory: break;
  }
  return {"peak memory", number(d.a.peakBytes), number(d.b.peakBytes)};
}

} // namespace

std::string assumptionOf(const DiffBudget& budget, const ProgramDiff& d) {
  // Without a size nothing is checked: `exceeded` says so.
  if (d.complete || !d.comparesCosts || budget.of == DiffBudget::Memory || !d.noMemory.empty()) return "";
  return std::string(kFlags[budget.of]) +
         ": the number of iterations of a loop depends on data, and counts as one in both programs";
}

Result<DiffBudget> parseBudget(DiffBudget::Of of, const std::string& text) {
  DiffBudget out{of, text, DiffBudget::Amount, 0};
  std::string_view rest = trimmed(text);
  const bool growth = rest.starts_with("+");
  if (growth) rest.remove_prefix(1);
  std::optional<double> value;
  if (growth && rest.ends_with("%")) {
    out.kind = DiffBudget::Percent;
    value = parseNumber<double>(trimmed(rest.substr(0, rest.size() - 1)));
  } else {
    out.kind = growth ? DiffBudget::Growth : DiffBudget::Amount;
    if (of == DiffBudget::Time)
      value = parseTime(rest);
    else if (const auto bytes = parseBytes(rest))
      value = static_cast<double>(*bytes);
  }
  if (!value || !std::isfinite(*value) || *value < 0)
    return usageError(std::string(kFlags[of]) + ": expected a growth such as +1% or " +
                      (of == DiffBudget::Time
                           ? "+1ms, or a time such as 20ms (ns, us, ms or s)"
                           : "+64MiB, or a size such as 2GiB (B; kB, MB, GB or TB; KiB, MiB, GiB or TiB)") +
                      ", got '" + text + "'");
  out.value = *value;
  return out;
}

std::optional<std::string> exceeded(const DiffBudget& budget, const ProgramDiff& d) {
  const std::string flag = std::string(kFlags[budget.of]) + " " + budget.text;
  if (!d.comparesCosts) return flag + " cannot be checked: a program did not compile";
  const Amounts amounts = amountsOf(budget.of, d);
  if (!amounts.b || (!amounts.a && budget.kind != DiffBudget::Amount))
    return flag + " cannot be checked: the " + amounts.what + " of a program is unknown, because " +
           d.noMemory;
  if (!d.complete && budget.of != DiffBudget::Memory && !d.noMemory.empty())
    return flag + " cannot be checked: sizes are unknown before the run: " + d.noMemory;
  const double a = amounts.a.value_or(0), b = *amounts.b;
  const double limit = budget.kind == DiffBudget::Percent  ? a + a * budget.value / 100
                       : budget.kind == DiffBudget::Growth ? a + budget.value
                                                           : budget.value;
  if (b <= limit * (1 + 1e-9)) return std::nullopt;
  std::string out = flag + " is exceeded: " + amounts.what + " ";
  if (budget.kind == DiffBudget::Amount) return out + "is " + amountTexts(budget.of, {limit, b})[1];
  const bool percent = budget.kind == DiffBudget::Percent;
  const std::vector<std::string> ends = amountTexts(budget.of, {a, b});
  out += "grew by " + amountTexts(budget.of, {percent ? b - a : budget.value, b - a})[1];
  if (a > 0) out += " (" + percentText((b - a) / a * 100, percent ? budget.value : -1) + " %)";
  return out + ", from " + ends[0] + " to " + ends[1];
}

} // namespace dtc
