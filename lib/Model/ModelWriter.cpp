#include "ModelWriter.h"

#include <algorithm>
#include <numeric>

namespace dtc {

std::string typeText(std::string_view dtype, const std::vector<int64_t>& dims) {
  std::string text = std::string(dtype) + "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

std::string listText(std::initializer_list<int64_t> numbers) { return typeText("", numbers); }

std::string lossDType(const ModelSpec& spec) { return std::string(dtypeName(accumulationType(spec.dtype))); }

std::string widened(ModelWriter& p, const std::string& name, const std::string& x) {
  std::string to = lossDType(p.spec());
  return to == dtypeName(p.spec().dtype) ? x
                                         : p.op(name + "_" + to, "convert " + x + " {dtype = " + to + "}");
}

std::string ModelWriter::cut(std::initializer_list<std::string_view> axes) const {
  std::string text;
  size_t count = 0;
  for (std::string_view a : axes)
    if (spec_.parallel.has(a)) text += (count++ ? ", " : "") + std::string(a);
  return count == 0 ? "_" : count == 1 ? text : "(" + text + ")";
}

std::string ModelWriter::kvCut() const {
  const int64_t devices = spec_.parallel.size("tp"), heads = spec_.kvHeads;
  if (heads >= devices) return tpCut();
  const int64_t groups = std::gcd(devices, heads);
  return groups == 1 ? "_" : "tp:(1)" + std::to_string(groups);
}

std::string ModelWriter::shardingText(const Cuts& cuts) const {
  if (spec_.parallel.axes.empty()) return "";
  std::string text = "@pod{";
  for (size_t i = 0; i < cuts.size(); ++i) text += (i ? ", " : "") + cuts[i];
  return text + "}";
}

std::string ModelWriter::input(const std::string& name, std::string_view dtype,
                               const std::vector<int64_t>& dims, const Cuts& cuts) {
  args_.push_back({"%" + name, typeText(dtype, dims), shardingText(cuts)});
  return "%" + name;
}

std::string ModelWriter::weight(const std::string& name, const std::vector<int64_t>& dims, const Cuts& cuts) {
  Cuts kept = cuts;
  // A vector is too small to be worth a gather.
  auto whole = std::find(kept.begin(), kept.end(), "_");
  const bool gathered = spec_.parallel.has("fsdp") && dims.size() > 1 && whole != kept.end();
  if (gathered) *whole = "fsdp";
  std::vector<int64_t> stored = dims;
  if (inLoop_) {
    kept.insert(kept.begin(), "_");
    stored.insert(stored.begin(), spec_.layers);
  }
  std::string full = (inLoop_ ? "blocks_" : prefix_) + name, value = "%" + full;
  args_.push_back({value, typeText(dtypeName(spec_.dtype), stored), shardingText(kept), true});
  if (inLoop_) value = op(name, "index_select " + value + ", %i {dim = 0}");
  return gathered ? op(name + "_whole", "shard " + value, shardingText(cuts)) : value;
}

// With pipeline stages, every op says which it belongs to.
void ModelWriter::mark(std::string& statement) const {
  if (!spec_.parallel.has("pp")) return;
  std::string stage = "stage = " + std::to_string(stage_) + "}";
  if (statement.ends_with('}'))
    statement.replace(statement.size() - 1, 1, ", " + stage);
  else
    statement += " {" + stage;
}

std::string ModelWriter::op(const std::string& name, const std::string& text, const std::string& typed) {
  std::string value = "%" + prefix_ + name, statement = text;
  mark(statement);
  body_ += indent_ + value + " = " + statement + (typed.empty() ? "" : " : " + typed) + "\n";
  return value;
}

std::string ModelWriter::withSequenceCuts(const std::string& name, const std::string& x, const Cuts& cuts) {
  return spec_.parallel.sequence ? op(name, "shard " + x, shardingText(cuts)) : x;
}

std::string ModelWriter::layers(const std::string& x,
                                const std::function<std::string(const std::string&)>& block) {
  if (spec_.loop) {
    body_ +=
        indent_ + "%blocks = for %i in 0.." + std::to_string(spec_.layers) + " (%stream = " + x + ") {\n";
    inLoop_ = true;
    indent_ += "  ";
    std::string out = block("%stream");
    body_ += indent_ + "yield " + out + "\n";
    indent_.resize(indent_.size() - 2);
    inLoop_ = false;
    body_ += indent_ + "}\n";
    return "%blocks";
  }
  std::string stream = x;
  for (int64_t i = 0; i < spec_.layers; ++i) {
    prefix_ = "blocks_" + std::to_string(i) + "_";
    stage_ = i * spec_.parallel.size("pp") / spec_.layers;
    stream = block(stream);
  }
  prefix_.clear();
  return stream;
}

std::string ModelWriter::function(const std::string& name, const std::string& results,
                                  const std::string& body, const std::string& returned) const {
  std::string text = "func @" + name + "(";
  for (const Arg& a : args_)
    text += (&a == &args_.front() ? "" : ", ") + a.name + ": " + a.type + " " + a.sharding;
  return text + ") -> (" + results + ") {\n" + body + "  return " + returned + "\n}\n";
}

// The loss and its gradients, then one step of gradient descent; the weights are there to be carried to the next step.
std::string ModelWriter::trainStep() const {
  std::string values = "%loss", results = "%loss: " + typeText(lossDType(spec_), {}), names, numbers, updates,
              returned = "%loss";
  for (size_t i = 0; i < args_.size(); ++i) {
    const Arg& a = args_[i];
    names += (i ? ", " : "") + a.name;
    if (!a.isWeight) continue;
    std::string bare = a.name.substr(1);
    values += ", %d_" + bare;
    numbers += (numbers.empty() ? "" : ", ") + std::to_string(i);
    updates += "  %step_" + bare + " = mul %d_" + bare + ", 0.01\n";
    updates += "  %new_" + bare + " = sub " + a.name + ", %step_" + bare + "\n";
    results += ", " + a.name + ": " + a.type + " " + a.sharding + " {carry = true}";
    returned += ", %new_" + bare;
  }
  return function("main", results,
                  "  " + values + " = value_and_grad @loss(" + names + ") {wrt = [" + numbers + "]}\n" +
                      updates,
                  returned);
}

std::string ModelWriter::module(const std::string& value, const std::string& label,
                                const std::string& type) const {
  std::string text;
  if (!spec_.parallel.axes.empty()) {
    text = "mesh @pod = [";
    for (const ModelParallel::Axis& a : spec_.parallel.axes)
      text += (&a == &spec_.parallel.axes.front() ? "" : ", ") + a.name + "=" + std::to_string(a.size);
    text += "]\n\n";
  }
  const bool train = spec_.mode == ModelMode::Train;
  text += function(train ? "loss" : "main", "%" + label + ": " + type, body_, value);
  return train ? text + "\n" + trainStep() : text;
}

} // namespace dtc
