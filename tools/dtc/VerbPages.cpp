#include "VerbPages.h"

#include "CommandLine.h"
#include "Verbs.h"
#include "dtc/Version.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace dtc {

namespace {

// A flag or a positional argument, as pages and scripts need it.
struct Flag {
  std::string shortName, longName; // without dashes, empty if there is none
  std::string type;                // "FILE", "cpu|cuda", empty for a flag without a value
  std::string doc, group;
  std::vector<std::string> choices;
  bool positional = false;
};

std::vector<std::string> choicesIn(const std::string& type) {
  std::vector<std::string> out;
  for (size_t from = 0; type.find('|') != std::string::npos && from <= type.size();) {
    const size_t to = std::min(type.find('|', from), type.size());
    std::string choice = type.substr(from, to - from);
    if (choice.find_first_of("[NT") == std::string::npos)
      out.push_back(std::move(choice)); // not a placeholder
    from = to + 1;
  }
  return out;
}

std::vector<Flag> flagsOf(const Verb& v) {
  CLI::App app;
  v.declare(app);
  addCommonOptions(app);
  std::vector<Flag> out;
  for (const CLI::Option* o : app.get_options()) {
    if (o->get_group().empty()) continue; // hidden
    Flag& f = out.emplace_back();
    f.positional = !o->nonpositional();
    if (!o->get_snames().empty()) f.shortName = o->get_snames().front();
    if (!o->get_lnames().empty()) f.longName = o->get_lnames().front();
    f.type = f.positional && valueTypeOf(*o).empty() ? o->get_name() : valueTypeOf(*o);
    f.doc = o->get_description();
    f.group = o->get_group();
    f.choices = choicesIn(f.type);
  }
  return out;
}

// --- manual pages ---

std::string roff(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-"; // a minus sign that can be copied, not a hyphen
    else if ((c == '.' || c == '\'') && (i == 0 || text[i - 1] == '\n'))
      out += std::string("\\&") + c; // not a request
    else
      out += c;
  }
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }

std::string pageHead(const std::string& name, std::string_view summary, const std::string& usage) {
  return ".TH " + roff(name) + " 1 \"\" \"dtc " DTC_VERSION "\" \"dtc\"\n.SH NAME\n" + roff(name) + " \\- " +
         roff(summary) + "\n.SH SYNOPSIS\n" + usage + "\n";
}

std::string flagEntry(const Flag& f) {
  std::string names;
  if (f.positional) return ".TP\n\\fI" + roff(f.type) + "\\fR\n" + roff(f.doc) + "\n";
  if (!f.shortName.empty()) names = bold("-" + f.shortName);
  if (!f.longName.empty()) names += (names.empty() ? "" : ", ") + bold("--" + f.longName);
  if (!f.type.empty()) names += " \\fI" + roff(f.type) + "\\fR";
  return ".TP\n" + names + "\n" + roff(f.doc) + "\n";
}

std::string verbPage(const Verb& v) {
  std::string page = pageHead(std::string("dtc-") + v.name, v.summary,
                              bold(std::string("dtc ") + v.name) + " " + roff(v.usage));
  const std::vector<Flag> flags = flagsOf(v);
  std::vector<std::string> groups;
  for (const Flag& f : flags)
    if (std::ranges::find(groups, f.group) == groups.end()) groups.push_back(f.group);
  for (const std::string& group : groups) {
    page += ".SH " + std::string(group == "Options" ? "OPTIONS" : "\"" + roff(group) + "\"") + "\n";
    for (const Flag& f : flags)
      if (f.group == group) page += flagEntry(f);
  }
  return page + ".SH EXAMPLES\n.nf\n" + roff(v.examples) +
         (std::string_view(v.examples).ends_with("\n") ? "" : "\n") + ".fi\n.SH SEE ALSO\n" +
         bold("dtc-compiler") + "(1)\n";
}

std::string mainPage() {
  std::string page = pageHead("dtc-compiler", "compiler for tensor programs on device meshes",
                              bold("dtc") + " \\fIVERB\\fR [\\fIOPTIONS\\fR] [\\fIFILE\\fR]");
  page +=
      ".SH DESCRIPTION\ndtc propagates the shardings of a tensor program over a mesh of devices, "
      "partitions,\n"
      "differentiates, fuses, compiles and runs it, and explains, checks and prices the result.\n.SH VERBS\n";
  for (const Verb& v : verbTable())
    page += ".TP\n" + bold(v.name) + "\n" + roff(v.summary) + "; see " + bold(std::string("dtc-") + v.name) +
            "(1)\n";
  return page + ".TP\n" + bold("help") +
         " \\fINAME\\fR\ndescribe a verb, an op, a pass or a kind of diagnostic\n"
         ".SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\nthe program, a result or a file is wrong\n.TP\n2\nthe "
         "command line "
         "is wrong\n.TP\n3\nthe machine cannot do it\n.TP\n70\na bug in dtc\n";
}

// --- completion ---

std::string joinedBy(const std::vector<std::string>& words, const char* separator) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : separator) + w;
  return out;
}

std::vector<std::string> firstWords() {
  std::vector<std::string> out;
  for (const Verb& v : verbTable()) out.emplace_back(v.name);
  for (const char* more : {"help", "--help", "--version"}) out.emplace_back(more);
  return out;
}

// "--passes|-p"
std::string patternOf(const Flag& f) {
  std::string out = f.longName.empty() ? "" : "--" + f.longName;
  if (!f.shortName.empty()) out += (out.empty() ? "-" : "|-") + f.shortName;
  return out;
}

bool takesPasses(const Flag& f) { return f.longName == "passes" || f.longName == "print-after"; }

std::string bashCase(const Verb& v) {
  std::vector<std::string> names;
  std::string values, first;
  for (const Flag& f : flagsOf(v)) {
    if (f.positional) {
      if (first.empty() && !f.choices.empty()) first = joinedBy(f.choices, " ");
      continue;
    }
    if (!f.longName.empty()) names.push_back("--" + f.longName);
    if (!f.shortName.empty()) names.push_back("-" + f.shortName);
    if (takesPasses(f))
      values += "        " + patternOf(f) + ") choices=$(\"$program\" help passes) ;;\n";
    else if (!f.choices.empty())
      values += "        " + patternOf(f) + ") choices='" + joinedBy(f.choices, " ") + "' ;;\n";
  }
  std::string out = std::string("    ") + v.name + ")\n      flags='" + joinedBy(names, " ") + "'\n";
  if (!first.empty()) out += "      [ \"$COMP_CWORD\" -ne 2 ] || choices='" + first + "'\n";
  if (!values.empty()) out += "      case $previous in\n" + values + "      esac\n";
  return out + "      ;;\n";
}

std::string bashScript() {
  std::string cases;
  for (const Verb& v : verbTable()) cases += bashCase(v);
  return R"sh(# Completion of dtc for bash, written by `dtc completion bash`.
_dtc() {
  local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local flags='' choices='' before=''
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W ')sh" +
         joinedBy(firstWords(), " ") + R"sh(' -- "$word")
    return
  fi
  case ${COMP_WORDS[1]} in
)sh" + cases +
         R"sh(    help)
      choices="$("$program" help ops) $("$program" help passes) $("$program" help kinds)"
      ;;
  esac
  if [ -n "$choices" ]; then
    case $word in *,*) before=${word%,*},; word=${word##*,} ;; esac # a list
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "$choices" -- "$word")
  elif [ "${word:0:1}" = - ]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
    compopt -o filenames 2>/dev/null
  fi
}
complete -F _dtc dtc dtc-compiler
)sh";
}

// A description within single quotes, where brackets and colons end parts.
std::string zshText(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zshScript() {
  std::string verbs, cases;
  for (const Verb& v : verbTable()) {
    verbs += std::string("    '") + v.name + ":" + zshText(v.summary) + "'\n";
    cases += std::string("    ") + v.name + ")\n      _arguments \\\n";
    std::string first = "_files";
    for (const Flag& f : flagsOf(v)) {
      if (f.positional) {
        if (!f.choices.empty()) first = "(" + joinedBy(f.choices, " ") + ")";
        continue;
      }
      std::string value = f.type.empty() ? "" : ":" + zshText(f.choices.empty() ? f.type : "value") + ":";
      if (takesPasses(f))
        value += "_sequence compadd - $(\"$words[1]\" help passes 2>/dev/null)";
      else if (!f.choices.empty())
        value += "(" + joinedBy(f.choices, " ") + ")";
      else if (!f.type.empty())
        value += "_files";
      for (const std::string& name :
           {f.longName.empty() ? "" : "--" + f.longName, f.shortName.empty() ? "" : "-" + f.shortName})
        if (!name.empty()) cases += "        '*" + name + "[" + zshText(f.doc) + "]" + value + "' \\\n";
    }
    cases += "        '1:argument:" + first + "' '*:file:_files'\n      ;;\n";
  }
  return "#compdef dtc dtc-compiler\n# Completion of dtc for zsh, written by `dtc completion zsh`.\n"
         "_dtc() {\n  local -a verbs=(\n" +
         verbs +
         "    'help:describe a verb, an op, a pass or a diagnostic kind'\n  )\n"
         "  if (( CURRENT == 2 )); then\n    _describe verb verbs\n    return\n  fi\n"
         "  local verb=$words[2] program=$words[1]\n"
         "  words=(\"$program\" \"${(@)words[3,-1]}\")\n  (( CURRENT-- ))\n  case $verb in\n" +
         cases +
         "    help) compadd - $($program help ops) $($program help passes) $($program help kinds) ;;\n"
         "  esac\n}\n_dtc \"$@\"\n";
}

std::string fishText(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out;
}

std::string fishScript() {
  std::string out = "# Completion of dtc for fish, written by `dtc completion fish`.\n";
  for (const Verb& v : verbTable())
    out += std::string("complete -c dtc -n __fish_use_subcommand -f -a ") + v.name + " -d '" +
           fishText(v.summary) + "'\n";
  out +=
      "complete -c dtc -n __fish_use_subcommand -f -a help -d 'describe a verb, an op, a pass or a "
      "diagnostic kind'\n"
      "complete -c dtc -n '__fish_seen_subcommand_from help' -f -a '(begin; dtc help ops; dtc help passes; "
      "dtc help kinds; end | string split -n \" \")'\n";
  for (const Verb& v : verbTable())
    for (const Flag& f : flagsOf(v)) {
      if (f.positional && f.choices.empty()) continue; // a file
      out += std::string("complete -c dtc -n '__fish_seen_subcommand_from ") + v.name + "'";
      if (!f.shortName.empty()) out += " -s " + f.shortName;
      if (!f.longName.empty()) out += " -l " + f.longName;
      if (!f.type.empty() && !f.positional) out += " -r";
      if (!f.choices.empty()) out += " -f -a '" + joinedBy(f.choices, " ") + "'";
      if (takesPasses(f)) out += " -f -a '(__fish_append , (dtc help passes | string split -n \" \"))'";
      out += " -d '" + fishText(f.doc) + "'\n";
    }
  return out;
}

} // namespace

Result<std::string> manualPage(std::string_view verb) {
  if (verb.empty()) return mainPage();
  std::vector<std::string_view> known;
  for (const Verb& v : verbTable()) {
    if (verb == v.name) return verbPage(v);
    known.emplace_back(v.name);
  }
  return usageError(unknownWord("verb", verb, known));
}

std::string completionScript(std::string_view shell) {
  return shell == "bash" ? bashScript() : shell == "zsh" ? zshScript() : fishScript();
}

} // namespace dtc
