#include "dtc/Support/Suggest.h"

#include "dtc/Ops/record/Ops.h"
#include "dtc/Support/DType.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>
#include <tuple>

using namespace dtc;

namespace {

std::set<std::string> namesIn(std::string_view list) {
  std::set<std::string> out;
  while (!list.empty()) {
    const size_t end = std::min(list.find('|'), list.size());
    out.emplace(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return out;
}

std::set<std::string> known(Vocabulary v) {
  std::set<std::string> out;
  const OpRegistry& ops = standardOps();
  if (v == Vocabulary::Op)
    for (size_t k = 0; k < ops.size(); ++k) out.emplace(ops[static_cast<OpKind>(k)].name);
  if (v == Vocabulary::Attribute)
    for (size_t k = 0; k < ops.size(); ++k)
      for (const AttrSpec& a : ops[static_cast<OpKind>(k)].attrs) out.emplace(a.name);
  if (v == Vocabulary::DType)
    for (int d = 0; d < kNumDTypes; ++d) out.emplace(dtypeName(static_cast<DType>(d)));
  if (v == Vocabulary::Keyword) out = {"func", "mesh", "return", "yield", "spmd"};
  return out;
}

} // namespace

TEST(Suggest, AliasesNameWhatExists) {
  for (Vocabulary v : {Vocabulary::Op, Vocabulary::Attribute, Vocabulary::DType, Vocabulary::Keyword}) {
    const std::set<std::string> names = known(v);
    for (const Alias& a : aliasTable()) {
      if (a.vocabulary != v) continue;
      const std::set<std::string> here = namesIn(a.here);
      EXPECT_TRUE(std::any_of(here.begin(), here.end(), [&](const auto& n) { return names.contains(n); }))
          << a.elsewhere << " -> " << a.here;
      if (v == Vocabulary::Op || v == Vocabulary::DType)
        EXPECT_FALSE(names.contains(std::string(a.elsewhere))) << a.elsewhere;
    }
  }
}

namespace {

// The codes in backquotes of a hint.
std::vector<std::string> codesIn(std::string_view how) {
  std::vector<std::string> out;
  for (size_t at = how.find('`'); at != how.npos; at = how.find('`', at)) {
    const size_t end = how.find('`', at + 1);
    if (end == how.npos) break;
    out.emplace_back(how.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return out;
}

// Op aliases without a hint, by why the name alone is enough. A new row belongs here only if dtc's op gives the same numbers for
// the same operands in the same order and the defaults of its attributes; else it needs a hint.
const std::pair<const char*, std::set<std::string>> kSameOps[] = {
    {"one operand, element by element",
     {"negate",
      "negative",
      "absolute",
      "fabs",
      "exponential",
      "exponential_minus_one",
      "natural_log",
      "ln",
      "log_plus_one",
      "sine",
      "cosine",
      "arcsin",
      "arccos",
      "arctan",
      "arcsinh",
      "arccosh",
      "arctanh",
      "logistic",
      "expit",
      "swish",
      "inverse_sqrt",
      "rsqrt_",
      "round_nearest_even",
      "rint",
      "truncate",
      "fix",
      "sgn",
      "lgamma_",
      "gammaln",
      "erfinv",
      "logsigmoid",
      "population_count",
      "count_leading_zeros",
      "bitwise_not",
      "invert",
      "isnan",
      "isinf",
      "isfinite",
      "detach"}},
    {"several operands in the same order, element by element",
     {"multiply",     "times",         "subtract",        "minus",
      "plus",         "add_any",       "power",           "fmod",
      "modulo",       "jnp.remainder", "torch.remainder", "stablehlo.remainder",
      "floor_divide", "floordiv",      "maximum",         "minimum",
      "arctan2",      "nextafter",     "not_equal",       "less",
      "less_equal",   "greater",       "greater_equal",   "bitwise_and",
      "bitwise_or",   "bitwise_xor",   "shift_left",      "left_shift",
      "right_shift",  "where",         "ifelse",          "clip"}},
    {"contractions with the same operands", {"mm", "bmm", "grouped_mm"}},
    {"reductions, over all dims without an attribute",
     {"reduce_sum", "add_reduce", "reduce_mean", "average", "reduce_prod", "reduce_max", "amax", "reduce_min",
      "amin", "reduce_any", "reduce_all", "reduce_logsumexp", "vector_norm"}},
    {"a required attribute says which dim or shape",
     {"arg_max",
      "arg_min",
      "cumulative_sum",
      "cat",
      "concatenate",
      "reverse",
      "rev",
      "index_take",
      "take_along_axis",
      "take_along_dim",
      "top_k",
      "adaptive_avg_pool2d",
      "avg_pool2d",
      "max_pool2d",
      "layernorm",
      "groupnorm",
      "logsoftmax",
      "lax.gather",
      "stablehlo.gather",
      "lax.scatter",
      "stablehlo.scatter"}},
    {"the same window over the same operands",
     {"conv1d", "conv2d", "conv3d", "convolution", "conv_general_dilated", "batch_norm_inference"}},
    {"losses and attention with the same operands",
     {"softmax_cross_entropy_with_integer_labels", "scaled_dot_product_attention", "sdpa"}},
    {"blocks and calls",
     {"if", "scan", "fori_loop", "while_loop", "checkpoint", "remat", "value_and_gradient", "custom_call",
      "shard_map", "optimization_barrier", "debug_print"}},
    {"collectives, whose axes are required",
     {"psum", "allreduce", "ppermute", "collective_permute", "allgather", "reducescatter", "alltoall",
      "collective_broadcast"}},
};

} // namespace

TEST(Suggest, OpAliasesWithoutAHintAreOfOneFamily) {
  std::set<std::string> same, rows;
  for (const auto& [why, names] : kSameOps)
    for (const std::string& name : names) EXPECT_TRUE(same.insert(name).second) << name << ": " << why;
  for (const Alias& a : aliasTable())
    if (a.vocabulary == Vocabulary::Op && !*a.how) rows.emplace(a.elsewhere);
  EXPECT_EQ(same, rows);
}

// What a hint says to write is text of dtc: ops, attributes and numbers of operands that exist.
TEST(Suggest, HintsAreStatementsOfDtc) {
  const OpRegistry& ops = standardOps();
  for (const Alias& a : aliasTable()) {
    if (a.vocabulary != Vocabulary::Op) continue;
    for (const std::string& code : codesIn(a.how)) {
      const size_t equal = code.starts_with('%') ? code.find(" = ") + 3 : 0;
      const std::string statement = code.substr(equal);
      const size_t nameEnd = std::min(statement.find(' '), statement.size());
      const OpKind kind = ops.find(statement.substr(0, nameEnd));
      ASSERT_NE(kind, kNoOpKind) << a.elsewhere << ": " << code;
      const size_t brace = std::min(statement.find('{'), statement.size());
      const size_t end = std::min(brace, statement.find(" : "));
      const std::string operands = statement.substr(nameEnd, std::min(end, statement.size()) - nameEnd);
      const auto count = static_cast<size_t>(std::ranges::count(operands, ',')) + 1;
      const OpKind used = ops.find(statement.substr(0, nameEnd), count);
      const OpRecord& record = ops[used];
      if (operands.find_first_not_of(' ') != std::string::npos && !record.isCall && !statement.ends_with("…"))
        EXPECT_TRUE(count >= operandArity(record).min && count <= operandArity(record).max)
            << a.elsewhere << ": " << code;
      for (size_t at = statement.find(" = ", brace); at != std::string::npos;
           at = statement.find(" = ", at + 1)) {
        const size_t first = statement.find_last_of("{ ", at - 1) + 1;
        const std::string attr = statement.substr(first, at - first);
        EXPECT_TRUE(std::ranges::any_of(record.attrs, [&](const AttrSpec& s) { return attr == s.name; }))
            << a.elsewhere << ": " << code << ": " << attr;
      }
    }
  }
}

TEST(Suggest, HintsGiveTheSameNumbers) {
  const std::pair<const char*, const char*> rows[] = {
      {"repeat_interleave", "`expand_dims` for a dim after the repeated one"},
      {"scatter_add", "reduce = \"sum\""},
      {"index_add", "reduce = \"sum\""},
      {"addmm", "`add` of %c and `matmul %a, %b`"},
      {"baddbmm", "`add` of %c and `matmul %a, %b`"},
      {"rsub", "operands exchanged"},
      {"log10", "2.302585092994046"},
      {"relu6", "`clamp %x, 0.0, 6.0`"},
      {"hardtanh", "`clamp %x, -1.0, 1.0`"},
      {"half", "dtype = f16"},
      {"double", "dtype = f64"},
      {"long", "dtype = i64"},
      {"bfloat16", "dtype = bf16"},
      {"addcmul", "`fma %t1, %t2, %x`"},
      {"stablehlo.clamp", "`clamp %x, %lo, %hi`"},
      {"jax.numpy.var", "correction = 0"},
      {"torch.nn.functional.cross_entropy", "`mean`"},
      {"pmax", "op = \"max\""},
  };
  std::vector<std::string_view> known;
  for (size_t k = 0; k < standardOps().size(); ++k)
    known.emplace_back(standardOps()[static_cast<OpKind>(k)].name);
  for (const auto& [word, text] : rows)
    EXPECT_NE(suggestion(Vocabulary::Op, word, known).find(text), std::string::npos)
        << word << suggestion(Vocabulary::Op, word, known);
}

TEST(Suggest, AliasesAreWrittenOnce) {
  std::set<std::tuple<Vocabulary, std::string, std::string>> seen;
  for (const Alias& a : aliasTable())
    EXPECT_TRUE(seen.emplace(a.vocabulary, a.elsewhere, a.here).second) << a.elsewhere;
}

TEST(Suggest, Answers) {
  const std::vector<std::string_view> ops = {"mul", "add", "relu", "concat", "sum"};
  EXPECT_EQ(suggestion(Vocabulary::Op, "multiply", ops), "; dtc calls it 'mul'");
  EXPECT_EQ(suggestion(Vocabulary::Op, "stablehlo.multiply", ops), "; dtc calls it 'mul'");
  EXPECT_EQ(suggestion(Vocabulary::Op, "ReLU", ops), "; dtc calls it 'relu'");
  EXPECT_EQ(suggestion(Vocabulary::Op, "rleu", ops), "; did you mean 'relu'?");
  EXPECT_EQ(suggestion(Vocabulary::Attribute, "axis", {"dims", "keepdim"}), "; dtc calls it 'dims'");
  EXPECT_EQ(suggestion(Vocabulary::Attribute, "axis", {"dim"}), "; dtc calls it 'dim'");
  EXPECT_EQ(suggestion(Vocabulary::Plain, "inptu", {"input", "w"}, "%"), "; did you mean %input?");
  EXPECT_EQ(suggestion(Vocabulary::Plain, "zebra", {"dp", "tp"}), "; expected one of: dp, tp");
  EXPECT_EQ(suggestion(Vocabulary::Plain, "zebra", {}), "");
}
