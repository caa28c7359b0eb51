#pragma once
// Stacks that a thread can leave and resume. x86-64 only: a switch is seven instructions each way.
#include <cstddef>

namespace dtc {

// A stack with a guard page below it, and its saved state.
class Fibre {
public:
  static constexpr size_t kStackBytes = 64 << 10; // only touched pages cost memory

  explicit Fibre(size_t number); // `number` staggers the tops, so that hot frames do not share one cache set
  ~Fibre();
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;
  [[nodiscard]] bool ok() const { return memory_ != nullptr; } // false: no memory
  // True if `p` is on this stack.
  [[nodiscard]] bool holds(const void* p) const {
    return static_cast<const char*>(p) >= bottom_ &&
           static_cast<const char*>(p) < static_cast<const char*>(bottom_) + size_;
  }

  // The number of used bytes of the stack below `p`.
  [[nodiscard]] size_t roomBelow(const void* p) const {
    return static_cast<size_t>(static_cast<const char*>(p) - static_cast<const char*>(bottom_));
  }

  // The next switch to it calls entry(argument), which never returns.
  void start(void (*entry)(void*), void* argument);

private:
  friend void switchFibre(Fibre& from, Fibre& to);
  friend class MainFibre;
  Fibre() = default; // the thread's own stack
  void* memory_ = nullptr;
  void* top_ = nullptr;
  void* sp_ = nullptr;
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
  [[maybe_unused]] void* sanitizer_ = nullptr; // ASan: saved fake stack; TSan: its fibre
  [[maybe_unused]] const void* bottom_ = nullptr;
  [[maybe_unused]] size_t size_ = 0;
  static void begin(Fibre*);
};

// Represents the stack on which the thread is already running.
class MainFibre : public Fibre {
public:
  MainFibre();
};

// Saves the state of `from`, the running one, and resumes `to`.
void switchFibre(Fibre& from, Fibre& to);

} // namespace dtc
