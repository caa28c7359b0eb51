#pragma once
// Result: a value, or an error of the machine (a missing file, out of memory, a missing library).
#include <string>
#include <utility>
#include <variant>

namespace dtc {

struct Error {
  enum Kind { Input, Usage, Machine, Bug } kind = Machine; // exit codes 1, 2, 3, 70
  std::string message; // states what was being done, for what, and what to do
};

template <class T> class [[nodiscard]] Result {
public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : v_(std::in_place_index<1>, std::move(error)) {}
  [[nodiscard]] bool ok() const { return v_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() & { return std::get<0>(v_); }
  const T& operator*() const& { return std::get<0>(v_); }
  T&& operator*() && { return std::get<0>(std::move(v_)); }
  T* operator->() { return &std::get<0>(v_); }
  const T* operator->() const { return &std::get<0>(v_); }
  [[nodiscard]] const Error& error() const { return std::get<1>(v_); }

private:
  std::variant<T, Error> v_;
};

struct Ok {};
using Status = Result<Ok>;

[[nodiscard]] inline Error machineError(std::string message) { return {Error::Machine, std::move(message)}; }
[[nodiscard]] inline Error inputError(std::string message) { return {Error::Input, std::move(message)}; }
[[nodiscard]] inline Error usageError(std::string message) { return {Error::Usage, std::move(message)}; }

// Sets `target` to the value of a Result, or returns the Result's error:
//   DTC_TRY(auto text, readFile(path));
#define DTC_TRY(target, ...) DTC_TRY_AS(DTC_TRY_NAME(__LINE__), target, __VA_ARGS__)
#define DTC_TRY_NAME(line) DTC_TRY_NAME_OF(line)
#define DTC_TRY_NAME_OF(line) resultOfLine##line
#define DTC_TRY_AS(result, target, ...)                                                                      \
  auto result = __VA_ARGS__;                                                                                 \
  if (!result) return result.error();                                                                        \
  target = *std::move(result)

// A check of dtc itself: prints the location and exits with 70 (after the driver's reproducer, see
// bugHandler).
[[noreturn]] void bugAt(const char* file, int line, const char* what);
// The same where no exception may pass, such as in a callback of a library (see Bug.h).
[[noreturn]] void endAtBug(const char* file, int line, const char* what) noexcept;
#define DTC_CHECK(cond, what)                                                                                \
  do {                                                                                                       \
    if (!(cond)) ::dtc::bugAt(__FILE__, __LINE__, what);                                                     \
  } while (false)

} // namespace dtc
