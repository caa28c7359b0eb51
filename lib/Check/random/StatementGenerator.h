#pragma once
// Generates random statements: ops, calls and control flow over the values so far. RandomProgram.cpp makes
// programs of them.
#include "dtc/IR/OpRecord.h"
#include "dtc/Ops/record/Samples.h"
#include <span>
#include <string>
#include <vector>

namespace dtc {

// splitmix64 (Steele, Lea, Flood 2014): the same numbers everywhere.
class Draw {
public:
  explicit Draw(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 0x853C49E6748FEA9Bull) {}
  uint64_t next() { return mix(state_ += 0x9E3779B97F4A7C15ull); }
  int below(int n) { return n < 2 ? 0 : static_cast<int>(next() % static_cast<uint64_t>(n)); } // 0 if n is 0
  [[nodiscard]] Draw fork(uint64_t salt) const { return Draw(mix(seed_ ^ mix(salt + 1))); }

private:
  static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  uint64_t state_, seed_ = state_;
};

struct RandomValue {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  bool exact = false;     // never rounded: equal bit by bit on every path
  int64_t lo = 0, hi = 0; // of an integer: known to be in [lo, hi)
  std::string input;      // of an argument: the value bound by `--input`
  uint64_t number = 0;
  bool read = false;
  [[nodiscard]] std::string type() const;
  [[nodiscard]] int64_t elements() const;
};

class StatementGenerator {
public:
  StatementGenerator(const OpRegistry& ops, Draw& draw);

  // The text of a sharding for a shape; the caller knows the mesh.
  struct Sharding {
    void* self;
    std::string (*of)(void* self, std::span<const int64_t> shape);
  };
  // A state to return to, taken before a statement.
  struct Mark {
    std::vector<RandomValue> values, arguments;
    size_t body, functions, numbers;
  };

  void begin();      // one or two arguments
  bool fromSample(); // an op of the registry, as in one of its samples
  bool fromShapes(); // an op that takes any shape
  bool shard(Sharding sharding);
  // Sums and maxima that may stay pending, and the sources of infinities and NaN in them: a divisor of 0, an
  // infinite factor or addend, a row without a finite element.
  void notFinite();
  bool control(int kind); // 0: for, 1: while, 2: cond, 3: call or value_and_grad

  [[nodiscard]] Mark mark() const;
  void undo(const Mark&);
  [[nodiscard]] bool small() const; // bounds the number of elements
  [[nodiscard]] const std::vector<RandomValue>& arguments() const { return arguments_; }
  [[nodiscard]] std::vector<RandomValue> results() const; // the last values, and some unused ones
  [[nodiscard]] const std::string& body() const { return body_; }
  [[nodiscard]] const std::string& functions() const { return functions_; }

private:
  std::string fresh(const char* prefix = "v");
  DType anyDType();
  RandomValue argument(DType d, std::vector<int64_t> shape, int64_t lo = 0, int64_t hi = 0);
  // A value of this dtype and shape: an existing one, a slice of one, or a new argument.
  RandomValue valueOf(DType d, const std::vector<int64_t>& shape, int64_t lo, int64_t hi, bool exact);
  const RandomValue* any(bool floats);
  RandomValue add(const std::string& expression, DType d, std::vector<int64_t> shape, bool exact);
  // The value mapped into the domain of the op, or to small magnitudes.
  [[nodiscard]] const OpRecord& recordOf(const char* op) const { return ops_[ops_.find(op, 1)]; }
  RandomValue intoDomain(const RandomValue& v, const OpRecord& op, size_t operand);
  std::string operandText(const RandomValue& v);
  bool sampleStatement(const OpSample& s, const std::string& line);
  bool reshaped(const RandomValue& v);
  bool moved(const RandomValue& v);
  bool reduced(const RandomValue& v);
  bool multiplied(const RandomValue& v);
  bool pointwise(const RandomValue& v);
  std::string elementwiseBody(const RandomValue& on, std::string& value, int ops, const std::string& indent);
  bool forLoop(const RandomValue& v);
  bool whileLoop(const RandomValue& v);
  bool branches(const RandomValue& v);
  bool called(const RandomValue& v);
  bool gradient(const RandomValue& v);

  const OpRegistry& ops_;
  Draw& draw_;
  std::vector<OpKind> sampled_, unary_, binary_;
  std::vector<RandomValue> values_, arguments_;
  std::string body_, functions_;
  size_t numbers_ = 0;
};

} // namespace dtc
