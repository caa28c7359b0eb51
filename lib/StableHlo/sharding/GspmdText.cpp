#include "sharding/GspmdText.h"
#include "dtc/Support/Checked.h"
#include <algorithm>

namespace dtc {

static constexpr DiagKind kGspmdText{"gspmd-syntax", "cannot parse this sharding: {0}"};
static constexpr int64_t kMaxDevices = 1 << 24;

namespace {

class GspmdReader {
public:
  GspmdReader(std::string_view source, std::string_view part, Diagnostics& diags)
      : lex_(source, part), diags_(diags) {}

  std::optional<std::vector<GspmdSharding>> all() {
    std::vector<GspmdSharding> out;
    if (!lex_.peek().is('{')) return fail("expected '{'"), std::nullopt;
    if (!lex_.second().is('{')) {
      if (!one(out.emplace_back())) return std::nullopt;
      return out;
    }
    lex_.next();
    while (!lex_.accept('}')) {
      if (!one(out.emplace_back())) return std::nullopt;
      if (!lex_.peek().is('}') && !expect(',')) return std::nullopt;
    }
    return out;
  }

private:
  bool fail(const std::string& why) { return diags_.fail(kGspmdText, lex_.peek().range(), why); }
  bool expect(char c) { return lex_.accept(c) || fail(std::string("'") + c + "' is missing"); }
  bool number(int64_t& out) {
    const auto v = lex_.peek().kind == MlirTok::Int ? mlirInteger(lex_.peek().text) : std::nullopt;
    if (!v || *v < 0 || *v > kMaxDevices) return fail("a number is missing, or too large");
    out = *v;
    lex_.next();
    return true;
  }
  bool numbers(char closer, std::vector<int64_t>& out) {
    while (!lex_.accept(closer)) {
      if (!number(out.emplace_back()) || (!lex_.peek().is(closer) && !expect(','))) return false;
    }
    return true;
  }

  bool one(GspmdSharding& out) {
    if (!expect('{')) return false;
    if (lex_.acceptWord("devices")) {
      if (!expect('=') || !tiles(out)) return false;
    } else if (lex_.acceptWord("manual")) {
      out.kind = GspmdSharding::Manual;
    } else if (lex_.acceptWord("maximal")) {
      int64_t device = 0;
      if (!lex_.acceptWord("device") || !expect('=') || !number(device)) return false;
    } else if (!lex_.acceptWord("replicated") && !lex_.peek().is('}')) {
      return fail("expected replicated, maximal, manual or devices=[…]");
    }
    while (!lex_.peek().is('}')) { // metadata={…}
      if (lex_.atEnd()) return fail("'}' is missing");
      if (!lex_.peek().is('{'))
        lex_.next();
      else if (!lex_.skipBalanced())
        return fail("unbalanced brackets");
    }
    return expect('}');
  }

  // [2,1,4]<=[8], [4,2]<=[2,4]T(1,0), [2,2]0,2,1,3; then the kinds of the last tile dims.
  bool tiles(GspmdSharding& out) {
    out.kind = GspmdSharding::Tiled;
    std::vector<int64_t> tile;
    if (!expect('[') || !numbers(']', tile)) return false;
    const auto all = checkedProduct(tile);
    if (!all || *all < 1 || *all > kMaxDevices)
      return fail("the product of its tile dims is not a number of devices");
    out.devices = *all;
    std::vector<DigitRange> order;
    if (!(lex_.accept('<') ? expect('=') && iota(order, *all) : list(order, *all))) return false;
    if (!assign(tile, std::move(order), out)) return false;
    std::vector<bool> last; // the tile dim is manual
    if (lex_.acceptWord("last_tile_dim_replicate")) last.push_back(false);
    if (lex_.acceptWord("last_tile_dims")) {
      if (!expect('=') || !expect('{')) return false;
      for (; !lex_.accept('}'); lex_.accept(',')) {
        if (lex_.peek().kind != MlirTok::Word)
          return fail("last_tile_dims takes a list of replicated and manual");
        last.push_back(lex_.next().isWord("manual"));
      }
    }
    if (last.size() > out.dims.size()) return fail("last_tile_dims lists more dims than there are tile dims");
    const size_t rank = out.dims.size() - last.size();
    for (size_t i = 0; i < last.size(); ++i)
      if (last[i]) out.manual.insert(out.manual.end(), out.dims[rank + i].begin(), out.dims[rank + i].end());
    out.dims.resize(rank);
    return true;
  }

  bool iota(std::vector<DigitRange>& order, int64_t all) {
    std::vector<int64_t> sizes, perm;
    if (!expect('[') || !numbers(']', sizes)) return false;
    if (checkedProduct(sizes) != all) return fail("the number of tiles differs from the number of devices");
    std::vector<DigitRange> digits;
    int64_t pre = 1;
    for (int64_t n : sizes) {
      digits.push_back({pre, n});
      pre *= n;
    }
    if (!lex_.acceptWord("T")) return order = digits, true;
    if (!expect('(') || !numbers(')', perm)) return false;
    std::vector<bool> seen(sizes.size());
    for (int64_t p : perm) {
      if (p >= static_cast<int64_t>(sizes.size()) || seen[static_cast<size_t>(p)])
        return fail("T(…) is not a permutation");
      seen[static_cast<size_t>(p)] = true;
      order.push_back(digits[static_cast<size_t>(p)]);
    }
    return perm.size() == sizes.size() || fail("T(…) is not a permutation");
  }

  bool list(std::vector<DigitRange>& order, int64_t all) {
    std::vector<int64_t> ids;
    do {
      if (static_cast<int64_t>(ids.size()) == all) return fail("it lists more devices than tiles");
      if (!number(ids.emplace_back())) return false;
    } while (lex_.accept(','));
    if (static_cast<int64_t>(ids.size()) != all)
      return fail("the number of tiles differs from the number of devices");
    const auto digits = digitOrder(ids);
    if (!digits) return fail("its device order is not a transposed grid");
    order = *digits;
    return true;
  }

  bool assign(const std::vector<int64_t>& tile, std::vector<DigitRange> order, GspmdSharding& out) {
    auto dims = splitDigits(tile, std::move(order));
    if (!dims) return fail("its tile dims do not match the factors of its device order");
    out.dims = *std::move(dims);
    return true;
  }

  MlirLexer lex_;
  Diagnostics& diags_;
};

} // namespace

std::optional<std::vector<GspmdSharding>> parseGspmd(std::string_view source, std::string_view part,
                                                     Diagnostics& diags) {
  return GspmdReader(source, part, diags).all();
}

} // namespace dtc
