#include "CommandLine.h"

#include "dtc/Support/Suggest.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

namespace dtc {

namespace {

constexpr const char* kCommonGroup = "Options"; // CLI11's group of flags without an explicit group

std::vector<std::string_view> partsOf(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// "cpu|cuda-emu|cuda": the type name without the description of CLI11's checks.
std::string typeOf(const CLI::Option& option) {
  std::string name = option.get_type_name();
  name.resize(std::min(name.find(':'), name.size()));
  return name;
}

// A flag takes no value.
bool isFlag(const CLI::Option& option) {
  return option.get_expected_max() == 0 || option.get_type_size() == 0;
}

class HelpFormatter : public CLI::Formatter {
public:
  HelpFormatter(const Verb& verb, bool all) : verb_(verb), all_(all) { column_width(30); }
  std::string make_usage(const CLI::App*, std::string) const override {
    return std::string("usage: dtc ") + verb_.name + " " + verb_.usage + "\n";
  }
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return make_description(app) + make_usage(app, std::move(name)) + make_positionals(app) +
           (all_ ? make_groups(app, mode) : commonGroup(app)) + '\n' + make_footer(app);
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (isFlag(*option)) return "";
    std::string name = typeOf(*option);
    const bool many = option->get_expected_max() == CLI::detail::expected_max_vector_size;
    return (name.empty() ? "" : " " + name) + (many ? " ..." : "");
  }

private:
  [[nodiscard]] std::string commonGroup(const CLI::App* app) const {
    std::string out = make_group(kCommonGroup, false, app->get_options([](const CLI::Option* o) {
      return o->nonpositional() && o->get_group() == kCommonGroup;
    }));
    std::string more;
    for (const std::string& group : app->get_groups())
      if (!group.empty() && group != kCommonGroup) more += (more.empty() ? "" : ", ") + group;
    if (!more.empty()) out += "\nMore flags with --help-all: " + more + ".\n";
    return out;
  }

  const Verb& verb_;
  bool all_;
};

// The option that a CLI11 error refers to: the one with the longest name found in its text.
const CLI::Option* optionOf(const CLI::App& app, const std::string& text) {
  const CLI::Option* found = nullptr;
  size_t length = 0;
  for (const CLI::Option* o : app.get_options()) {
    const std::string name = o->get_name();
    if (name.size() <= length || text.find(name) == std::string::npos) continue;
    found = o, length = name.size();
  }
  return found;
}

// "1 to 1024" in "… not in range 1 to 1024"; empty if the text has no range.
std::string rangeIn(const std::string& text) {
  constexpr std::string_view kWords = "not in range ";
  const size_t at = text.find(kWords);
  return at == std::string::npos ? "" : text.substr(at + kWords.size());
}

// The message for a value that is not among the flag's choices: `--backend gpu`.
std::string unknownChoice(const std::string& name, const std::vector<std::string_view>& choices,
                          const std::string& value) {
  std::string noun = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  constexpr std::string_view kNouns[] = {"backend", "format", "policy", "mode", "target", "dtype"};
  std::string text = std::find(std::begin(kNouns), std::end(kNouns), noun) != std::end(kNouns)
                         ? "unknown " + noun + " '" + value + "'"
                         : "unknown value '" + value + "' of " + name;
  return text + suggestion(Vocabulary::Choice, value, choices);
}

std::string wrongValue(const CLI::Option& option, const std::string& text) {
  const std::string name = option.get_name(), type = typeOf(option);
  const std::string value = option.results().empty() ? "" : option.results().back();
  if (isFlag(option)) return name + " takes no value, got '" + value + "'";
  const std::vector<std::string_view> choices = partsOf(type, '|');
  if (choices.size() > 1 || text.find(" not in {") != std::string::npos)
    return unknownChoice(name, choices, value);
  if (std::string range = rangeIn(text); !range.empty())
    return name + " expects a number from " + range + ", got '" + value + "'";
  const std::string prefix = name + ": ";
  if (text.starts_with(prefix) && text.find(value) != std::string::npos)
    return text; // the message of a custom check
  return name + " expects " +
         (type.empty()  ? "a value"
          : type == "N" ? "a number"
                        : type) +
         ", got '" + value + "'";
}

// With a hint for a second value after a flag that takes one: `--dim N=5 K=3`.
std::string unexpectedArgument(const CLI::App& app, const std::string& word) {
  std::string repeated;
  for (const CLI::Option* o : app.get_options())
    if (o->count() > 0 && typeOf(*o).starts_with("NAME=") && word.find('=') != std::string::npos)
      repeated = repeated.empty() ? o->get_name() : "the flag";
  return "unexpected argument '" + word + "'" +
         (repeated.empty() ? "" : ": repeat " + repeated + " for each value");
}

std::string wrongCount(const CLI::App& app, const CLI::Option& option) {
  const std::string name = option.get_name(), type = typeOf(option);
  const size_t given = option.results().size();
  if (isFlag(option)) return name + " takes no value";
  if (given < 2) return name + " needs a value" + (type.empty() ? "" : ": " + name + " " + type);
  std::string text = name + " takes one value, but is given " + std::to_string(given) + " times";
  if (name == "--passes") text += "; separate passes with commas: -p a,b";
  if (name == "FILE") text = unexpectedArgument(app, option.results().back());
  return text;
}

// The verbs that declare this flag: "dtc run, dtc compile".
std::string verbsWith(const std::string& flag) {
  std::string out;
  for (const Verb& v : verbTable()) {
    CLI::App app;
    v.declare(app);
    if (flag.starts_with("--") && app.get_option_no_throw(flag))
      out += (out.empty() ? "" : ", ") + std::string("dtc ") + v.name;
  }
  return out;
}

} // namespace

std::string valueTypeOf(const CLI::Option& option) { return isFlag(option) ? "" : typeOf(option); }

std::string verbHelp(const Verb& verb, const CLI::App& app, bool all) {
  const HelpFormatter formatter(verb, all);
  return formatter.make_help(&app, "", all ? CLI::AppFormatMode::All : CLI::AppFormatMode::Normal);
}

void addCommonOptions(CLI::App& app) {
  app.set_help_flag("-h,--help", "print this help");
  app.set_help_all_flag("--help-all", "print all flags");
  // Declared and checked here; read by diagnosticsFormatOf.
  app.add_option_function<std::string>(
         "--diagnostics", [](const std::string&) {},
         "format of errors and warnings; json and sarif write one document to stderr")
      ->type_name("text|json|sarif")
      ->check(CLI::IsMember({"text", "json", "sarif"}).description(""));
}

DiagnosticsFormat diagnosticsFormatOf(const std::vector<std::string>& words) {
  constexpr std::string_view kFlag = "--diagnostics";
  DiagnosticsFormat format = DiagnosticsFormat::Text;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string_view value;
    if (words[i] == kFlag && i + 1 < words.size()) value = words[i + 1];
    if (words[i].starts_with(std::string(kFlag) + "="))
      value = std::string_view(words[i]).substr(kFlag.size() + 1);
    if (value == "json") format = DiagnosticsFormat::Json;
    if (value == "sarif") format = DiagnosticsFormat::Sarif;
    if (value == "text") format = DiagnosticsFormat::Text;
  }
  return format;
}

Error commandLineError(const Verb& verb, const CLI::App& app, const CLI::ParseError& e) {
  const std::string text = e.what(), type = e.get_name();
  const CLI::Option* option = optionOf(app, text);
  std::string message;
  if (type == "RequiredError")
    message = "missing argument: " + (option ? option->get_name() + ", " + option->get_description() : text);
  else if (option && type == "ArgumentMismatch")
    message = wrongCount(app, *option);
  else if (option && (type == "ValidationError" || type == "ConversionError"))
    message = wrongValue(*option, text);
  else
    message = text; // "--a requires --b", "--a excludes --b"
  return usageError(message + "; see `dtc " + verb.name + " --help`");
}

std::optional<Error> flagWithValue(const Verb& verb, const CLI::App& app,
                                   const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const size_t equal = word.find('=');
    if (!word.starts_with("--") || equal == std::string::npos) continue;
    const CLI::Option* option = app.get_option_no_throw(word.substr(0, equal));
    if (option && isFlag(*option))
      return usageError(word.substr(0, equal) + " takes no value, got '" + word.substr(equal + 1) +
                        "'; see `dtc " + verb.name + " --help`");
  }
  return std::nullopt;
}

Error unexpectedWord(const Verb& verb, const CLI::App& app, const std::string& word) {
  const std::string bare = word.substr(0, word.find('='));
  if (!bare.starts_with('-') || bare == "-")
    return usageError(unexpectedArgument(app, word) + "; see `dtc " + verb.name + " --help`");
  std::vector<std::string> flags;
  for (const CLI::Option* o : app.get_options()) {
    for (const std::string& name : o->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : o->get_snames()) flags.push_back("-" + name);
  }
  const std::vector<std::string_view> known(flags.begin(), flags.end());
  const std::string unknown = "unknown flag '" + bare + "' of `dtc " + verb.name + "`";
  if (std::string_view near = nearestWord(bare, known); !near.empty())
    return usageError(unknown + "; did you mean '" + std::string(near) + "'?");
  if (std::string verbs = verbsWith(bare); !verbs.empty())
    return usageError(unknown + "; it is a flag of " + verbs);
  return usageError(unknown + " (`dtc " + verb.name + " --help-all` lists them)");
}

std::string shellWord(std::string_view word) {
  const auto plain = [](unsigned char c) {
    return c >= 0x80 || std::isalnum(c) ||
           std::string_view("_@%+=:,./-").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, plain)) return std::string(word);
  std::string out = "'";
  for (char c : word) out += c == '\'' ? "'\\''" : c == '\n' ? "'$'\\n''" : std::string(1, c);
  return out + "'";
}

} // namespace dtc
