#include "Job.h"

#include "dtc/Support/Cores.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <unistd.h>

namespace dtc {

Result<std::unique_ptr<Job>> Job::open(Environment& env, double timeoutSeconds) {
  DTC_TRY(auto processes, Processes::open(timeoutSeconds));
  if (processes->rank() != 0) env.mute();
  return std::unique_ptr<Job>(new Job(std::move(processes)));
}

int Job::threads() const {
  const int cores = availableCores();
  const bool bound = cores < sysconf(_SC_NPROCESSORS_ONLN); // to cores of its own
  return bound ? cores : std::max(1, cores / processes_->sizeOnHost());
}

// FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/)
static uint64_t hashOf(std::string_view text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

static std::vector<std::string_view> linesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// Names the first line that differs between process 0 and the first other process that has another document.
Status Job::different(Environment& env, const std::string& document) {
  DTC_TRY(const auto all, processes_->allGather(document));
  size_t rank = 1;
  while (rank + 1 < all.size() && all[rank] == all[0]) ++rank;
  const auto first = linesOf(all[0]), other = linesOf(all[rank]);
  size_t at = 0;
  while (at < std::min(first.size(), other.size()) && first[at] == other[at]) ++at;
  const auto lineAt = [at](const auto& lines) {
    return at < lines.size() ? "\n  " + std::string(lines[at]) : std::string(" nothing");
  };
  const Error error =
      usageError("the processes do not run the same program: " + processes_->name(0) + " has" +
                 lineAt(first) + "\n" + processes_->name(static_cast<int>(rank)) + " has" + lineAt(other));
  return Error{error.kind, env.fail(error) ? "" : ""};
}

// `code`: not 0 if this process cannot start.
Status Job::agree(Environment& env, int code, const std::string& document) {
  const std::string mine = code ? "error " + std::to_string(code) + " " + env.mutedText()
                                : "hash " + std::to_string(hashOf(document));
  DTC_TRY(const auto all, processes_->allGather(mine));
  phase_ = Phase::Running;
  const auto failed = std::ranges::find_if(all, [](const std::string& s) { return s.starts_with("error "); });
  if (failed == all.end())
    return std::ranges::count(all, all[0]) == std::ssize(all) ? Status(Ok{}) : different(env, document);
  const size_t end = failed->find(' ', 6);
  const int theirs = std::atoi(failed->c_str() + 6);
  if (speaks() && code == 0) { // else it has said so itself
    std::string text = failed->substr(end + 1);
    text = text.substr(text.starts_with("error: ") ? 7 : 0);
    while (text.ends_with('\n')) text.pop_back();
    env.err("error: " + processes_->name(static_cast<int>(failed - all.begin())) + ": " + text + "\n");
  }
  const Error::Kind kind = theirs == kExitInput   ? Error::Input
                           : theirs == kExitUsage ? Error::Usage
                                                  : Error::Machine;
  return Error{kind, ""};
}

Status Job::start(Environment& env, const std::string& document) { return agree(env, 0, document); }

void Job::abort(Environment& env, int code) {
  (void)env.finish();
  std::fflush(nullptr);
  if (!speaks()) std::this_thread::sleep_for(std::chrono::seconds(5)); // process 0 says why, and ends all
  processes_->abort(code);
}

int Job::finish(Environment& env, int code) {
  if (phase_ == Phase::Running && code != 0 && processes_->failure()) // others wait in a collective
    processes_->fail(std::to_string(code) + " " + env.mutedText());
  if (phase_ == Phase::Running && code != 0) abort(env, code);
  if (phase_ == Phase::Loading && code != 0) {
    (void)agree(env, code, "");
    phase_ = Phase::Ran;
  }
  const auto codes = processes_->allGather(std::to_string(code));
  if (!codes) {
    const int failed = env.fail(codes.error());
    abort(env, failed);
  }
  for (const std::string& other : *codes) code = std::max(code, std::atoi(other.c_str()));
  return code;
}

} // namespace dtc
