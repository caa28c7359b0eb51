#include "Help.h"

#include "Verbs.h"
#include "dtc/Ops/record/OpText.h"
#include "dtc/Passes/pipeline/PassText.h"
#include "dtc/Report/kinds/KindPages.h"
#include "dtc/Support/Suggest.h"

#include <algorithm>

namespace dtc {

namespace {

// The entry of docs/ops.md without its marks.
std::string opPage(const OpRegistry& ops, OpKind kind) {
  std::string text = opMarkdown(ops, kind).substr(4); // "### "
  if (std::string example = opExample(ops, kind); !example.empty())
    text += "Example:\n\n```dt\n" + example + "```\n";
  text = terminalText(text);
  std::erase(text, '`');
  return text;
}

// Formats words in equally wide columns.
std::string columns(const std::vector<std::string_view>& words) {
  constexpr size_t kLine = 100;
  size_t width = 0;
  for (std::string_view w : words) width = std::max(width, w.size() + 2);
  const size_t perLine = std::max<size_t>(1, kLine / std::max<size_t>(width, 1));
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool last = i % perLine == perLine - 1 || i + 1 == words.size();
    out += std::string(words[i]) + (last ? "\n" : std::string(width - words[i].size(), ' '));
  }
  return out;
}

struct Names {
  std::vector<std::string_view> ops, passes, kinds;
  Names() {
    const OpRegistry& all = standardOps();
    for (size_t k = 0; k < all.size(); ++k)
      if (std::string_view name = all[static_cast<OpKind>(k)].name; ops.empty() || ops.back() != name)
        ops.push_back(name);
    for (const PassInfo& p : passTable()) passes.emplace_back(p.name);
    for (const KindPage& p : kindPages()) kinds.emplace_back(p.id);
  }
};

int unknownPage(Environment& env, const std::string& name, const Names& names) {
  if (std::string hint = suggestion(Vocabulary::Op, name, names.ops); hint.starts_with("; dtc calls it '")) {
    const std::string_view here = std::string_view(hint).substr(16);
    const std::string op(here.substr(0, here.find('\'')));
    env.err("note: '" + name + "' is called '" + op + "' in dtc\n");
    return helpOn(env, op);
  }
  std::vector<std::string_view> known = {"ops", "passes", "kinds"};
  for (const Verb& v : verbTable()) known.emplace_back(v.name);
  for (const auto* list : {&names.ops, &names.passes, &names.kinds})
    known.insert(known.end(), list->begin(), list->end());
  const std::string hint = suggestion(Vocabulary::Plain, name, known);
  return env.fail(
      usageError("no verb, op, pass or diagnostic kind named '" + name + "'" +
                 (hint.empty() ? "; `dtc help ops`, `passes` and `kinds` list all names" : hint)));
}

} // namespace

int helpOn(Environment& env, const std::string& name) {
  const Names names;
  std::string word = name;
  if (word.starts_with('[') && word.ends_with(']')) word = word.substr(1, word.size() - 2);
  if (word == "ops") return env.out(columns(names.ops)), kExitDone;
  if (word == "passes") return env.out(columns(names.passes)), kExitDone;
  if (word == "kinds") return env.out(columns(names.kinds)), kExitDone;
  std::string text;
  const OpRegistry& ops = standardOps();
  if (OpKind kind = ops.find(word); kind != kNoOpKind) text += opPage(ops, kind);
  if (const PassInfo* pass = findPass(word)) text += (text.empty() ? "" : "\n") + passText(*pass);
  if (const KindPage* page = findKindPage(word))
    text += (text.empty() ? "" : "\n") + word + "\n\n" + terminalText(page->markdown);
  if (text.empty()) return unknownPage(env, word, names);
  env.out(text);
  return kExitDone;
}

} // namespace dtc
