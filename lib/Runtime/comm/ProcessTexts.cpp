#include "comm/ProcessTexts.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace dtc {

static ProcessMessage message(int peer, bool send, std::string& data) {
  return {peer, send, reinterpret_cast<std::byte*>(data.data()), static_cast<int64_t>(data.size())};
}

// A text is its length, then its bytes.
static std::string lengthOf(std::string_view text) {
  const auto length = static_cast<uint64_t>(text.size());
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes;
}

static size_t lengthIn(const std::string& bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return static_cast<size_t>(length);
}

Result<std::vector<std::string>> gatherTexts(Processes& processes, const ProcessChannel& on,
                                             std::string_view mine) {
  const auto size = static_cast<size_t>(processes.size());
  std::string own(mine), length = lengthOf(mine);
  ProcessExchange e;
  if (processes.rank() != 0) {
    e.messages = {message(0, true, length), message(0, true, own)};
    if (Status s = processes.exchange(on, e); !s) return s.error();
    return std::vector<std::string>();
  }
  std::vector<std::string> lengths(size, length), texts(size);
  for (int p = 1; p < processes.size(); ++p)
    e.messages.push_back(message(p, false, lengths[static_cast<size_t>(p)]));
  if (Status s = processes.exchange(on, e); !s) return s.error();
  e.messages.clear();
  for (int p = 1; p < processes.size(); ++p) {
    texts[static_cast<size_t>(p)].resize(lengthIn(lengths[static_cast<size_t>(p)]));
    e.messages.push_back(message(p, false, texts[static_cast<size_t>(p)]));
  }
  if (Status s = processes.exchange(on, e); !s) return s.error();
  texts[0] = std::move(own);
  return texts;
}

Result<std::vector<std::string>> allGatherTexts(Processes& processes, const ProcessChannel& on,
                                                std::string_view mine) {
  DTC_TRY(auto texts, gatherTexts(processes, on, mine));
  std::string joined; // the length of each text, and the text
  for (const std::string& text : texts) joined += lengthOf(text) + text;
  std::string length = lengthOf(joined);
  ProcessExchange e;
  for (const bool whole : {false, true}) {
    std::string& part = whole ? joined : length;
    if (whole && processes.rank() != 0) joined.resize(lengthIn(length));
    e.messages.clear();
    if (processes.rank() != 0) e.messages.push_back(message(0, false, part));
    for (int p = 1; processes.rank() == 0 && p < processes.size(); ++p)
      e.messages.push_back(message(p, true, part));
    if (Status s = processes.exchange(on, e); !s) return s.error();
  }
  texts.clear();
  for (size_t at = 0; at < joined.size();) {
    const size_t bytes = lengthIn(joined.substr(at, sizeof(uint64_t)));
    texts.push_back(joined.substr(at + sizeof(uint64_t), bytes));
    at += sizeof(uint64_t) + bytes;
  }
  return texts;
}

Result<uint8_t> combineBits(Processes& processes, const ProcessChannel& on, uint8_t bits) {
  std::vector<std::string> texts(static_cast<size_t>(processes.size()),
                                 std::string(1, static_cast<char>(bits)));
  std::string all(1, '\0');
  ProcessExchange e;
  if (processes.rank() != 0) {
    e.messages = {message(0, true, texts[0]), message(0, false, all)};
    if (Status s = processes.exchange(on, e); !s) return s.error();
    return static_cast<uint8_t>(all[0]);
  }
  for (int p = 1; p < processes.size(); ++p)
    e.messages.push_back(message(p, false, texts[static_cast<size_t>(p)]));
  if (Status s = processes.exchange(on, e); !s) return s.error();
  for (const std::string& text : texts) all[0] = static_cast<char>(all[0] | text[0]);
  e.messages.clear();
  for (int p = 1; p < processes.size(); ++p) e.messages.push_back(message(p, true, all));
  if (Status s = processes.exchange(on, e); !s) return s.error();
  return static_cast<uint8_t>(all[0]);
}

Result<std::vector<uint64_t>> allGatherWords(Processes& processes, const ProcessChannel& on, uint64_t mine) {
  std::vector<uint64_t> all(static_cast<size_t>(processes.size()), mine);
  ProcessExchange e;
  for (int p = 0; p < processes.size(); ++p) {
    if (p == processes.rank()) continue;
    e.messages.push_back({p, true, reinterpret_cast<std::byte*>(&mine), sizeof mine});
    e.messages.push_back({p, false, reinterpret_cast<std::byte*>(&all[static_cast<size_t>(p)]), sizeof mine});
  }
  if (Status s = processes.exchange(on, e); !s) return s.error();
  return all;
}

std::string failureText(int code, const std::string& why) {
  return std::string(1, kFailure) + std::to_string(code) + " " + why;
}

int exitCodeOf(const Error& e) { return e.kind == Error::Input ? 1 : e.kind == Error::Usage ? 2 : 3; }

Error errorOf(const std::string& text, const std::string& process) {
  const int code = std::atoi(text.c_str());
  const std::string why = text.substr(std::min(text.size(), text.find(' ') + 1));
  const Error::Kind kind = code == 1 ? Error::Input : code == 2 ? Error::Usage : Error::Machine;
  return {kind, process + ": " + why};
}

} // namespace dtc
