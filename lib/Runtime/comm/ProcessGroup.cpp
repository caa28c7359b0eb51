#include "dtc/Runtime/comm/ProcessGroup.h"

#include "dtc/Runtime/comm/SameProgram.h"

#include <algorithm>
#include <utility>

namespace dtc {
namespace {

const std::string kLeaves = "the end";

// "0 text": a kind of error, and what it says.
std::string textOf(const Error& error) {
  return std::to_string(error.kind) + " " + withoutErrorWord(error.message);
}

Error errorIn(const std::string& text, const std::string& process) {
  return {static_cast<Error::Kind>(std::atoi(text.c_str())),
          process + ": " + text.substr(text.find(' ') + 1)};
}

// The exit code of the command line, which Processes::fail takes.
int codeOf(Error::Kind kind) { return kind == Error::Input ? 1 : kind == Error::Usage ? 2 : 3; }

} // namespace

Result<std::shared_ptr<ProcessGroup>> ProcessGroup::join(double timeoutSeconds) {
  const ProcessTransport by =
      transportOfLauncher() == ProcessTransport::Tcp ? ProcessTransport::Tcp : ProcessTransport::Mpi;
  DTC_TRY(auto processes, Processes::open(timeoutSeconds, false, by));
  return std::shared_ptr<ProcessGroup>(new ProcessGroup(std::move(processes)));
}

ProcessGroup::~ProcessGroup() {
  const auto lock = turn();
  (void)leave();
}

Status ProcessGroup::usable() const {
  if (ended_) return *ended_;
  return processes_->failure();
}

// All processes see the same words, and decide alike.
Status ProcessGroup::agree(const std::string& what, const Status& given) {
  ++calls_;
  const std::optional<Error> owed = std::exchange(owed_, std::nullopt);
  const Status mine = given && owed ? Status(*owed) : given;
  if (Status s = usable(); !s) return mine ? s : mine;
  processes_->stage(what);
  constexpr uint64_t kProblem = 1; // the lowest bit
  const uint64_t word = (hashOfText(what) & ~kProblem) | (mine ? 0 : kProblem);
  DTC_TRY(const auto words, processes_->allGather(word, what));
  const bool alike =
      std::ranges::all_of(words, [&](uint64_t w) { return (w | kProblem) == (word | kProblem); });
  const bool problems = std::ranges::any_of(words, [](uint64_t w) { return (w & kProblem) != 0; });
  if (alike && !problems) return Ok{};
  DTC_TRY(const auto texts, processes_->allGather(mine ? what : textOf(mine.error())));
  const auto leaves = std::ranges::find(texts, kLeaves),
             stays = std::ranges::find_if(texts, [](const auto& t) { return t != kLeaves; });
  const auto nameOf = [&](auto at) { return processes_->name(static_cast<int>(at - texts.begin())); };
  const auto hasProblem = [&](auto at) {
    return (words[static_cast<size_t>(at - texts.begin())] & kProblem) != 0;
  };
  if (!alike && leaves != texts.end())
    return ended(nameOf(leaves) + " has ended, but " + nameOf(stays) +
                 (hasProblem(stays) ? " has an error: " + stays->substr(2) : " is at " + *stays));
  if (!problems)
    return usageError("the processes do not make the same call" + firstDifference(*processes_, texts));
  const bool all = std::ranges::all_of(words, [](uint64_t w) { return (w & kProblem) != 0; });
  if (!mine) return all ? mine : Status(errorIn(textOf(mine.error()), processes_->name(rank_)));
  const auto at = std::ranges::find_if(words, [](uint64_t w) { return (w & kProblem) != 0; });
  const auto text = texts.begin() + (at - words.begin());
  return errorIn(*text, nameOf(text));
}

void ProcessGroup::refuse(const Error& why) { (void)agree("a call that failed before it began", why); }

// A process makes no further calls.
Status ProcessGroup::ended(const std::string& why) {
  ended_ = machineError(why);
  processes_->endUse(why);
  return *ended_;
}

void ProcessGroup::beginLoad(const std::string& name) { load_ = {"the compilation of " + name}; }

Status ProcessGroup::agreeOnProgram(const std::string& document) {
  load_.stage = Load::Settled;
  if (Status s = agree(load_.what); !s) return s;
  const uint64_t hash = hashOfText(document);
  DTC_TRY(const auto words, processes_->allGather(hash, load_.what));
  if (std::ranges::count(words, hash) == std::ssize(words)) return load_.stage = Load::Rounds, Ok{};
  DTC_TRY(const auto all, processes_->allGather(document));
  return usageError("the processes do not have the same program" + firstDifference(*processes_, all));
}

Status ProcessGroup::endLoad(const Status& mine) {
  if (load_.stage == Load::Reading) return agree(load_.what, mine);
  if (load_.stage == Load::Settled) return mine;
  if (processes_->problem()) { // `mine` is that of another process
    processes_->forgetProblem();
    return mine;
  }
  if (Status s = usable(); !s) return mine ? s : mine;
  const std::string problem =
      mine ? "" : std::to_string(codeOf(mine.error().kind)) + " " + textOf(mine.error()).substr(2);
  const auto all = processes_->round("", mine ? nullptr : &problem);
  processes_->forgetProblem();
  return !mine || all ? mine : Status(all.error());
}

void ProcessGroup::endRun(const Error& why) {
  if (ended_) return;
  const std::string text = textOf(why).substr(2);
  ended_ = machineError("an earlier run has failed: " + text);
  processes_->fail(codeOf(why.kind), text);
  processes_->endUse(ended_->message);
}

Status ProcessGroup::leave() {
  if (Status s = usable(); !s) return s;
  Status together = agree(kLeaves);
  if (!together) return together;
  processes_.reset();
  ended_ = machineError("this process has left the others");
  return Ok{};
}

} // namespace dtc
