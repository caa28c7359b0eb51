#pragma once
// PTX text as data: the kernels of an image, with what a performance analysis needs of each instruction. It
// is the text that NVRTC returns, so that the facts are the compiler's, not those of the kernel's plan.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::ptx {

enum class Op : uint8_t {
  Mov,
  Add,
  Sub,
  Mul,
  MulHi,
  MulWide,
  Mad,
  MadWide,
  Shl,
  Shr,
  And,
  Or,
  Xor,
  Not,
  Neg,
  Min,
  Max,
  Abs,
  Div,
  Rem,
  Setp,
  Selp,
  Cvt,
  Cvta,
  Load,
  Store,
  Atomic,
  Branch,
  Exit,
  Barrier,
  ClusterBarrier,
  CopyAsync,
  CopyCommit,
  CopyWait,
  LoadMatrix,
  Mma,
  Shuffle,
  ActiveMask,
  Special,
  Call,
  Other, // arithmetic of floats, and what an index does not need
};

enum class Space : uint8_t { Generic, Global, Shared, Local, Param, Constant };

struct Type {
  char kind = 'b'; // u, s, b, f, or p (a predicate)
  int bits = 32;
  friend bool operator==(const Type&, const Type&) = default;
};

struct Operand {
  enum Kind : uint8_t { Nothing, Register, Immediate, Special, Symbol, Memory, Vector } kind = Nothing;
  int reg = -1;                    // Register, and the base of Memory; -1: none
  bool negated = false;            // a predicate with !
  int64_t value = 0;               // Immediate (floats as bits), and the offset of Memory
  std::string name = {};           // Special ("tid.x"), Symbol, and the base of Memory where that is a symbol
  std::vector<Operand> parts = {}; // Vector
};

struct Instruction {
  Op op = Op::Other;
  std::string opcode; // as written
  Type type, from;    // from: the source of cvt
  Space space = Space::Generic;
  int accessBytes = 0; // of a thread: Load, Store, Atomic, CopyAsync, LoadMatrix
  int64_t flops = 0;   // Mma: of a warp
  std::string compare; // Setp: "lt", "nan", …
  int guard = -1;      // the predicate register, or -1
  bool guardNegated = false;
  int target = -1; // Branch: index of an instruction
  std::vector<Operand> operands;
  [[nodiscard]] bool writes() const; // operands[0] is what it writes
};

struct Kernel {
  std::string name;
  std::vector<Instruction> code; // of its body
  int registers = 0;             // virtual ones: operand numbers are below
  int params = 0;
};

// The kernels (entries) of an image, in order. Text that is not PTX has none.
[[nodiscard]] std::vector<Kernel> parse(std::string_view text);
// One of them, or one without code.
[[nodiscard]] Kernel parseKernel(std::string_view text, std::string_view name);

// By instruction: whether it is in a loop, by the strongly connected components of the control flow.
[[nodiscard]] std::vector<bool> inLoops(const Kernel&);
// A division or remainder of 64-bit integers: about a hundred instructions.
[[nodiscard]] bool isWideDivision(const Instruction&);

} // namespace dtc::ptx
