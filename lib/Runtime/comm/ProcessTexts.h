#pragma once
// Texts, words and bits of all processes, given to process 0 or to all. One thread of each process calls the same function
// with the same channel; an error is that of Processes::exchange.
#include "dtc/Runtime/comm/Processes.h"

namespace dtc {

// On process 0: the texts by rank; on others an empty list.
[[nodiscard]] Result<std::vector<std::string>> gatherTexts(Processes&, const ProcessChannel&,
                                                           std::string_view mine);
[[nodiscard]] Result<std::vector<std::string>> allGatherTexts(Processes&, const ProcessChannel&,
                                                              std::string_view mine);
// In one exchange of each pair of processes.
[[nodiscard]] Result<std::vector<uint64_t>> allGatherWords(Processes&, const ProcessChannel&, uint64_t mine);
// The bits that are set in some process.
[[nodiscard]] Result<uint8_t> combineBits(Processes&, const ProcessChannel&, uint8_t bits);

// A failure as a text, "!1 'expect_close': …", with an exit code; for errorOf() without its first byte.
inline constexpr char kFailure = '!';
[[nodiscard]] std::string failureText(int code, const std::string& why);
[[nodiscard]] int exitCodeOf(const Error& error);
[[nodiscard]] Error errorOf(const std::string& text, const std::string& process);

} // namespace dtc
