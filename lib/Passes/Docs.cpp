// docs/passes.md, from the pass table.
#include "dtc/Passes/PassText.h"
#include "dtc/Passes/Pipeline.h"

namespace dtc {

namespace {

std::string optionsTable(const PassInfo& pass) {
  if (pass.options.empty()) return "";
  std::string text = "| option | default | |\n| --- | --- | --- |\n";
  for (const PassOption& o : pass.options)
    text += "| `" + std::string(o.name) + "` | " + o.fallback + " | " + o.doc + " |\n";
  return text + "\n";
}

std::string beforeAndAfter(const char* before, const char* after) {
  return std::string("Before:\n\n```dt\n") + before + "```\n\nAfter:\n\n```dt\n" + after + "```\n";
}

std::string passSection(const PassInfo& pass) {
  std::string text =
      "\n## `" + std::string(pass.name) + "`\n\n" + pass.summary + "\n\n" + pass.why + "\n\nTakes ";
  text +=
      std::string(levelName(pass.needs)) + " text, leaves " + std::string(levelName(pass.gives)) + " text.";
  text += pass.standard ? "\n\n" : " Not in the standard pipeline.\n\n";
  text += optionsTable(pass);
  text += beforeAndAfter(pass.before, pass.after);
  for (const PassExample& e : pass.more)
    text += "\n" + std::string(e.title) + ".\n\n" + beforeAndAfter(e.before, e.after);
  return text;
}

std::string indented(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    out += (end > 1 ? "    " : "") + std::string(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out;
}

} // namespace

std::string passText(const PassInfo& p) {
  std::string text = std::string(p.name) + ": " + p.summary + "\n\n" + p.why + "\n\ntakes " +
                     std::string(levelName(p.needs)) + " text, leaves " + std::string(levelName(p.gives)) +
                     " text\n";
  if (!p.options.empty()) text += "\noptions:\n";
  for (const PassOption& o : p.options)
    text += "  " + std::string(o.name) + "=" + o.fallback + "  " + o.doc + "\n";
  if (p.before && *p.before)
    text += "\nbefore:\n" + indented(p.before) + "\nafter `dtc opt -p " + p.name + "`:\n" + indented(p.after);
  for (const PassExample& e : p.more)
    text += "\n" + std::string(e.title) + ".\n\nbefore:\n" + indented(e.before) + "\nafter:\n" +
            indented(e.after);
  return text;
}

std::string passesMarkdown() {
  std::string text =
      "# The passes\n\n"
      "Written by `dtc opt --passes-page` from the pass table (lib/Passes/PassTable.cpp): do not edit.\n"
      "The standard pipeline runs them in this order, but for the last ones, which stand outside it; `dtc "
      "opt -p\n"
      "a,b` runs exactly those named. Each example is run by a test.\n";
  for (const PassInfo& pass : passTable()) text += passSection(pass);
  return text;
}

} // namespace dtc
