// dtc_command and dtc_main: the driver within the caller's process. Part of libdtc.so.
#include "EntryPoint.h"
#include "Environment.h"
#include "Verbs.h"
#include "dtc/Api/ApiError.h"
#include "dtc/Support/Bug.h"
#include "dtc/Support/OutOfMemory.h"
#include "dtc/dtc.h"

#include <algorithm>

int32_t dtc_command(const char* const* words, size_t num_words, const char* input, size_t input_size,
                    void (*write)(void* self, int32_t stream, const char* text, size_t size), void* self) {
  try {
    dtc::throwAtBugs();
    dtc::Environment env(std::string(input ? input : "", input ? input_size : 0));
    env.commandLine.emplace_back("dtc");
    if (words && std::any_of(words, words + num_words, [](const char* word) { return !word; })) {
      const std::string text = "error: dtc_command: one of the words is null\n";
      if (write) write(self, 2, text.data(), text.size());
      return DTC_ERROR_USAGE;
    }
    if (words) env.commandLine.insert(env.commandLine.end(), words, words + num_words);
    const int code = dtc::runDtc(env);
    if (write) {
      write(self, 1, env.outText.data(), env.outText.size());
      write(self, 2, env.errText.data(), env.errText.size());
    }
    return code;
  } catch (...) { // out of memory while an error was reported, or a bug
    const dtc::Error error = dtc::errorOfException();
    const std::string text = "error: " + error.message + "\n";
    if (write) write(self, 2, text.data(), text.size());
    return error.kind == dtc::Error::Bug ? DTC_ERROR_BUG : DTC_ERROR_MACHINE;
  }
}

int dtc_main(int argc, char** argv) {
  dtc::installTerminateHandler();
  return dtc::mainOfDtc(argc, argv);
}
