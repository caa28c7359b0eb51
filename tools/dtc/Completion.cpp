// dtc completion: prints what a shell needs to complete dtc's command line, and dtc's manual pages.
#include "VerbPages.h"
#include "Verbs.h"

#include <CLI/CLI.hpp>
#include <memory>

namespace dtc {

Verb completionVerb() {
  Verb v;
  v.name = "completion";
  v.usage = "bash|zsh|fish|man [VERB]";
  v.summary = "print a shell's completion script, or a manual page";
  v.examples = "  eval \"$(dtc completion bash)\"          in ~/.bashrc\n"
               "  dtc completion zsh > ~/.zfunc/_dtc     a folder of $fpath\n"
               "  dtc completion fish > ~/.config/fish/completions/dtc.fish\n"
               "  dtc completion man run > dtc-run.1     a manual page\n";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    struct Options {
      std::string what, verb;
    };
    auto o = std::make_shared<Options>();
    app.add_option("WHAT", o->what, "the shell, or man for a manual page in roff")
        ->type_name("bash|zsh|fish|man")
        ->check(CLI::IsMember({"bash", "zsh", "fish", "man"}).description(""))
        ->required();
    app.add_option("VERB", o->verb, "with man: the verb (default: the page of dtc itself)")->type_name("");
    return [o](Environment& env) -> Result<int> {
      if (o->what != "man" && !o->verb.empty())
        return usageError("unexpected argument '" + o->verb + "': only `dtc completion man` takes a verb");
      if (o->what != "man") return env.out(completionScript(o->what)), kExitDone;
      DTC_TRY(auto page, manualPage(o->verb));
      return env.out(page), kExitDone;
    };
  };
  return v;
}

} // namespace dtc
