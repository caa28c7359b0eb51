// Nests whose threads process several elements at once, or whose rows are walked as one.
#include "print/CudaEmitter.h"

#include <set>

namespace dtc {

using namespace loops;

namespace {

class PackEmitter final : public CudaEmitter {
public:
  // `strided`: a thread's elements are strided by a warp (stridedPack); else they are neighbors. A single one: a
  // flat nest (isFlat).
  PackEmitter(const Kernel& k, KernelText& out, int threads, const NestPlan& plan, int64_t count,
              bool strided, int64_t steps)
      : CudaEmitter(k, out, threads), lane_(*plan.vector), count_(count), strided_(strided), steps_(steps),
        flat_(strided ? 0 : flatElements(k, plan, count)) {
    movesBits_ = !strided;
  }

private:
  int64_t stride() const { return threads_ * count_; } // between packs of a thread
  int64_t flatUnit() const { return stride() * steps_; }

  std::string countUnits() override {
    if (!flat_) return CudaEmitter::countUnits();
    out_.printed.units.terms.push_back({{flat_, -1, flatUnit()}});
    return text((flat_ + flatUnit() - 1) / flatUnit());
  }
  std::string beginUnit(Scope& top, Scope& row, const std::string& unit) override {
    return flat_ ? "" : CudaEmitter::beginUnit(top, row, unit);
  }
  std::string bound(AxisId a, bool last) const override {
    return !last && !afterPacks_.empty() ? afterPacks_ : CudaEmitter::bound(a, last);
  }

  // The offset of a thread's packs: the head of the loop over them, in `row`, and the coordinates of each, in
  // `pack`.
  std::string openPacks(const std::string& unit, Scope& row, Scope& pack) {
    const std::string i = axisText(lane_), n = text(count_), step = text(stride()), whole = text(flatUnit());
    const std::string own = strided_ ? "threadIdx.x / 32 * " + text(kWarp * count_) + " + threadIdx.x % 32"
                            : count_ == 1 ? "threadIdx.x"
                                          : "threadIdx.x * " + n;
    auto loop = [&](const std::string& at, const std::string& first, const std::string& last) {
      if (steps_ > 1)
        return "for (i32 step = 0; step < " + text(steps_) + "; ++step) if (const " + index_ + " " + at +
               " = " + (first == "0" ? "" : first + " + ") + "step * " + step + " + " + own + "; " + at +
               " < " + last + ") {";
      return "for (" + index_ + " " + at + " = " + (first == "0" ? "" : first + " + ") + own + "; " + at +
             " < " + last + "; " + at + " += " + step + ") {";
    };
    const Size& length = k_.axes[lane_].extent;
    const std::string extent = sizeText(length);
    if (flat_) {
      line(row, "const " + index_ + " first = (" + unit + ") * " + whole + ";");
      line(row, "const " + index_ + " last = dtc_index_min(first + " + whole + ", " + text(flat_) + ");");
      line(pack, "const " + index_ + " " + i + (count_ > 1 ? "_at" : "") + " = at % " + extent + ";");
      line(pack, index_ + " rest = at / " + extent + ";");
      for (size_t a = plan_.grid.size(); a-- > 0;) {
        const std::string size = sizeText(k_.axes[plan_.grid[a]].extent);
        line(pack,
             "const " + index_ + " " + axisText(plan_.grid[a]) + " = rest" + (a ? " % " + size : "") + ";");
        if (a) line(pack, "rest /= " + size + ";");
        pack.bound |= AxisSet(1) << plan_.grid[a];
      }
      return loop("at", "first", "last");
    }
    const std::string first = bound(lane_, false), end = bound(lane_, true);
    std::string last = end;
    const std::string share = text(strided_ ? kWarp * count_ : count_); // of a warp, or of a thread
    if (strided_ || !length.isStatic() || length.number % count_ != 0) {
      afterPacks_ = last = i + "_packed";
      line(row, "const " + index_ + " " + last + " = " +
                    (first == "0" ? "(" + end + ")" : first + " + (" + end + " - " + first + ")") + " / " +
                    share + " * " + share + ";");
    }
    return loop(i + "_at", first, last);
  }

  // A condition that is the same for all elements of a pack, at its first one. Once in `at`.
  std::string uniformText(NodeId n, Scope& at) {
    if (!(k_.dependsOn(n) >> lane_ & 1)) return wrapped(emit(n, at));
    if (const auto name = at.names.find(n.index); name != at.names.end()) return name->second.text;
    Scope first; // of the pack; its names are not those of other elements
    first.parent = &at, first.bound = at.bound | AxisSet(1) << lane_, first.indent = at.indent;
    const std::string condition = emit(n, first).text, name = fresh("uniform");
    append(at, first);
    line(at, "const bool " + name + " = " + condition + ";");
    at.names[n.index] = {name, false, true};
    return name;
  }
  bool isUniform(NodeId n) const { return !strided_ && isUniformInPack(k_, n, lane_, count_); }

  // The pack of which each element is the value's, without a conversion; "": there is none.
  std::string packOfBits(NodeId n, DType dtype, Scope& pack) {
    const Node& value = k_[n];
    if (value.kind == NodeKind::Load) {
      const auto found = packs_.find(n.index);
      return found == packs_.end() ? "" : found->second;
    }
    if (value.kind == NodeKind::Number)
      return "dtc_same_pack<" + typeText(dtype) + ", " + text(count_) + ">(" + literalText(value) + ")";
    if (!isUniform(value.args[0])) return "";
    const std::string yes = packOfBits(value.args[1], dtype, pack),
                      no = packOfBits(value.args[2], dtype, pack);
    return yes.empty() || no.empty()
               ? ""
               : "(" + uniformText(value.args[0], pack) + " ? " + yes + " : " + no + ")";
  }
  void storeText(const Store& store, Scope& s) override {
    if (moved_.contains(&store)) return;
    if (packLane_.empty() || !movesBits(store)) return CudaEmitter::storeText(store, s);
    line(s, packElement(store, s) + " = " + bitsText(store.value, k_.buffers[store.buffer].dtype, s) + ";");
  }

  // Random numbers whose global indices form a pack are four values of one block of their generator.
  void drawPack(NodeId n, Scope& pack, Scope& inner) {
    const Node& draw = k_[n];
    NodeId index = draw.args[0];
    while (k_[index].kind == NodeKind::Call && k_[index].function == "convert") index = k_[index].args[0];
    if (k_[index].kind != NodeKind::Index || !isInPacks(k_, k_[index].affine, lane_, count_)) return;
    if (((k_.dependsOn(draw.args[1]) | k_.dependsOn(draw.args[2])) >> lane_ & 1) != 0) return;
    const std::string key = emit(draw.args[1], pack).text, upper = emit(draw.args[2], pack).text,
                      words = fresh("words");
    line(pack, "const auto " + words + " = dtc_random_pack<" + text(count_) + ">((u64)(" +
                   affineText(k_[index].affine, pack) + "), " + key + ", " + upper + ");");
    inner.names[n.index] = {"(u64)" + words + ".at[lane]", false, false};
  }

  // The elements of a loaded pack are its own in order, or in reverse.
  void nameElements(NodeId n, const std::string& x, bool reversed, Scope& inner) {
    const DType dtype = k_.buffers[k_[n].buffer].dtype;
    const std::string at = reversed ? text(count_ - 1) + " - lane" : "lane";
    inner.names[n.index] = {strided_ && isNarrowFloat(dtype) ? "dtc_load(" + x + ".at + lane)"
                                                             : laneText(dtype, x, at),
                            false, true};
    bits_[n.index] = x + ".at[" + at + "]";
    if (!strided_ && !reversed) packs_[n.index] = x;
  }

  // Of several packs per thread, all are loaded in `fetch`, a loop of their own.
  void loadPack(NodeId n, Scope& row, Scope& fetch, Scope& pack, Scope& inner) {
    const Node& load = k_[n];
    const bool reversed = !strided_ && isInReversedPacks(k_, load.affine, lane_, count_);
    if (!load.args.empty() && !isUniform(load.args[0])) return;
    if (!reversed &&
        !(strided_ ? isContiguous(k_, load.affine, lane_) : isInPacks(k_, load.affine, lane_, count_)))
      return;
    std::string x = fresh("pack");
    const std::string type =
        "dtc_pack<" + typeText(k_.buffers[load.buffer].dtype) + ", " + text(count_) + ">";
    Scope& scope = steps_ > 1 ? fetch : pack;
    std::string value = (strided_ ? "dtc_load_strided<" : "dtc_load_pack<") + text(count_) + ">(" +
                        bufferText(load.buffer) + " + " + affineText(load.affine, scope) +
                        (reversed ? " - " + text(count_ - 1) : "") + ")";
    if (!load.args.empty()) value = uniformText(load.args[0], scope) + " ? " + value + " : " + type + "{}";
    if (steps_ > 1) {
      line(row, type + " " + x + "[" + text(steps_) + "];");
      x += "[step]";
      line(fetch, x + " = " + value + ";");
    } else {
      line(pack, "const auto " + x + " = " + value + ";");
    }
    nameElements(n, x, reversed, inner);
  }
  // Conditions that do not depend on the element are not computed per element.
  void nameUniform(NodeId n, Scope& pack, Scope& inner) {
    const bool chosen = isCallOf(k_, n, "select");
    if (!chosen && (k_[n].kind != NodeKind::Load || k_[n].args.empty())) return;
    const NodeId condition = k_[n].args[0];
    if ((k_.dependsOn(condition) >> lane_ & 1) && isUniform(condition)) {
      (void)uniformText(condition, pack);
      inner.names[condition.index] = pack.names.at(condition.index);
    }
  }

  // A loop over elements.
  void printFlat(Scope& row, const std::string& unit) {
    Scope one = Scope::within(row);
    const std::string head = openPacks(unit, row, one);
    one.bound |= AxisSet(1) << lane_, one.vector = lane_;
    emitUnit(*nest_, one);
    line(row, head);
    append(row, one);
    line(row, "}");
  }

  // The packs of results that are computed per element; returns the statements that write packs.
  Text declareResults(Scope& pack) {
    Text stores;
    stores.indent = pack.indent;
    for (const Store& s : nest_->stores) {
      if (strided_) break;
      const DType dtype = k_.buffers[s.buffer].dtype;
      const bool bits = movesBits(s);
      std::string value = bits ? packOfBits(s.value, dtype, pack) : "";
      if (!value.empty())
        moved_.insert(&s);
      else if (bits)
        line(pack, "dtc_pack<" + typeText(dtype) + ", " + text(count_) + "> " + packText(s) + ";");
      else
        declarePack(s, count_, pack);
      if (value.empty()) value = bits ? packText(s) : packResult(s);
      line(stores, "dtc_store_pack(" + bufferText(s.buffer) + " + " + affineText(s.address, pack) + ", " +
                       value + ");");
    }
    return stores;
  }

  // A loop over packs: each is loaded at once, computed element by element, and stored at once. Then the
  // elements that no pack covers.
  void printUnit(Scope& row, const std::string& unit) override {
    if (count_ == 1) return printFlat(row, unit);
    const std::string i = axisText(lane_);
    Scope pack, inner;
    pack.parent = &row, pack.bound = row.bound, pack.indent = row.indent + 1;
    const std::string head = openPacks(unit, row, pack);
    Scope fetch = pack; // the coordinates of a pack
    inner.parent = &pack, inner.bound = pack.bound | AxisSet(1) << lane_, inner.vector = lane_;
    inner.indent = pack.indent + 1;
    firstOfPack_ = lane_;
    auto eachNode = [&](auto fn) { forEachNode(k_, rootsOf(k_, *nest_), fn); };
    eachNode([&](NodeId n) {
      if (k_[n].kind == NodeKind::Load) loadPack(n, row, fetch, pack, inner);
    });
    if (steps_ > 1) {
      row.text += "#pragma unroll\n";
      line(row, head);
      append(row, fetch);
      line(row, "}");
      row.text += "#pragma unroll\n";
    }
    if (!strided_ && count_ % 4 == 0)
      eachNode([&](NodeId n) {
        if (k_[n].kind == NodeKind::Call && k_[n].function == "random32") drawPack(n, pack, inner);
      });
    eachNode([&](NodeId n) { nameUniform(n, pack, inner); });
    const Text stores = declareResults(pack);
    firstOfPack_.reset();
    packLane_ = strided_ ? "" : "lane";
    emitStores(*nest_, inner);
    packLane_.clear();
    line(row, head);
    append(row, pack);
    if (!inner.text.empty()) {
      row.text += "#pragma unroll\n";
      line(row, "  for (i32 lane = 0; lane < " + text(count_) + "; ++lane) {");
      if (inner.uses(i))
        line(row, "    const " + index_ + " " + i + " = " + i + "_at + lane" + (strided_ ? " * 32;" : ";"));
      append(row, inner);
      line(row, "  }");
    }
    append(row, stores);
    line(row, "}");
    moved_.clear(), bits_.clear();
    if (!afterPacks_.empty()) CudaEmitter::printUnit(row, unit);
  }

  AxisId lane_;
  int64_t count_;
  bool strided_;
  int64_t steps_;                                   // packs per thread and unit
  int64_t flat_;                                    // 0, or the number of elements in all
  std::unordered_map<uint32_t, std::string> packs_; // of loads
  std::set<const Store*> moved_;                    // stores of packs as they are
  std::string afterPacks_;                          // the offset of the elements that no pack covers
};

} // namespace

bool printPacks(const Kernel& k, const Nest& nest, int threads, KernelText& out, Emitter::Scope& top) {
  NestPlan plan = planForThreads(k, nest);
  const int64_t strided = stridedPack(k, nest, plan), count = strided > 1 ? strided : packOf(k, nest, plan);
  if (count == 1 && !isFlat(k, nest, plan)) return false;
  const int64_t steps = strided > 1 || count == 1 ? 1 : packSteps(k, nest, plan, count, threads);
  if (steps > 1 && plan.blocked) plan.block = steps * count * threads;
  PackEmitter(k, out, threads, plan, count, strided > 1, steps).print(nest, plan, top);
  return true;
}

} // namespace dtc
