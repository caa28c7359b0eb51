#include "Handles.h"

#include "dtc/Runtime/comm/SameProgram.h"
#include "dtc/Support/Bug.h"

using namespace dtc;

dtc_status dtc_processes_join(const dtc_options* options, dtc_context** context, dtc_error** error) {
  if (context) *context = nullptr;
  return guarded(error, [&]() -> Status {
    if (Status s = checkGiven({{context, "context"}}); !s) return s;
    throwAtBugs();
    const ContextOptions o = contextOptionsOf(options);
    DTC_TRY(auto group, ProcessGroup::join(compileOptionsOf(options).backend.cuda.timeoutSeconds));
    const int threads = o.threads ? o.threads : threadsOfProcess(group->processes());
    auto machine = std::make_shared<Machine>(threads, o.jit);
    machine->group = std::move(group);
    *context = new dtc_context{std::move(machine)};
    return Ok{};
  });
}

dtc_status dtc_processes_leave(dtc_context* context, dtc_error** error) {
  return guarded(error, [&]() -> Status {
    if (Status s = checkGiven({{context, "context"}}); !s) return s;
    if (!context->machine->group) return usageError("the context has not joined other processes");
    const auto turn = context->machine->group->turn();
    return context->machine->group->leave();
  });
}

dtc_status dtc_processes_refuse(dtc_context* context, const char* why, dtc_error** error) {
  return guarded(error, [&]() -> Status {
    if (Status s = checkGiven({{context, "context"}, {why, "why"}}); !s) return s;
    if (!context->machine->group) return usageError("the context has not joined other processes");
    const auto turn = context->machine->group->turn();
    context->machine->group->refuse(usageError(why));
    return context->machine->group->usable();
  });
}

uint64_t dtc_processes_calls(const dtc_context* context) {
  return context && context->machine->group ? context->machine->group->calls() : 0;
}

int32_t dtc_process_rank(const dtc_context* context) {
  return context && context->machine->group ? context->machine->group->rank() : 0;
}

int32_t dtc_process_count(const dtc_context* context) {
  return context && context->machine->group ? context->machine->group->size() : 1;
}
