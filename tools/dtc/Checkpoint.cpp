// dtc checkpoint: lists, compares and converts the checkpoints of training runs.
#include "dtc/Files/Checkpoint.h"
#include "Verbs.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Units.h"
#include "dtc/Support/Words.h"
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

namespace dtc {

namespace {

struct CheckpointOptions {
  std::string action, out;
  std::vector<std::string> folders;
  int64_t step = -1;
  bool json = false;
};

// The newest checkpoint of a folder, or that of --step, which is compared with its hashes.
Result<Checkpoint> chosen(const std::string& folder, int64_t step) {
  DTC_TRY(auto checkpoint, chosenCheckpoint(folder, step));
  if (Status s = checkpoint.verify(); !s) return s.error();
  return checkpoint;
}

Result<int> list(Environment& env, const CheckpointOptions& o) {
  DTC_TRY(const auto found, checkpointsIn(o.folders[0]));
  bool sound = true;
  std::string text, items;
  for (const CheckpointFolder::Found& f : found) {
    const auto checkpoint = Checkpoint::open(f.path);
    const Status s = checkpoint ? checkpoint->verify() : Status(checkpoint.error());
    sound = sound && s.ok();
    const size_t tensors = checkpoint ? checkpoint->manifest().tensors.size() : 0;
    const int64_t bytes = checkpoint ? checkpoint->manifest().bytes : 0;
    const std::string why = s ? "" : s.error().message;
    text += "step " + std::to_string(f.step) + ": " + std::to_string(tensors) +
            (tensors == 1 ? " tensor, " : " tensors, ") + bytesText(bytes) +
            (s ? ", sound" : ", not sound: " + why) + "\n";
    items += (items.empty() ? "\n  " : ",\n  ") + std::string("{\"step\": ") + std::to_string(f.step) +
             ", \"path\": " + jsonString(f.path) + ", \"tensors\": " + std::to_string(tensors) +
             ", \"bytes\": " + std::to_string(bytes) + ", \"sound\": " + (s ? "true" : "false") +
             (s ? "" : ", \"why\": " + jsonString(why)) + "}";
  }
  if (o.json)
    env.out("{\"folder\": " + jsonString(o.folders[0]) + ", \"checkpoints\": [" + items + "]}\n");
  else
    env.out(text.empty() ? quotedPath(o.folders[0]) + " has no checkpoint\n" : text);
  return sound ? kExitDone : kExitInput;
}

// The largest difference between elements; NaN where only one of them is NaN, 0 where the bits are equal.
double largestDifference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (int64_t i = 0; i < a.numElements(); ++i) {
    const std::complex<double> x = a.getComplex(i), y = b.getComplex(i);
    if (x == y) continue;
    const double difference = std::abs(x - y);
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

struct TensorDifference {
  std::string name, text;
  double largest = 0;
  bool typed = false; // both have it with the same type
};

Result<std::vector<TensorDifference>> differencesOf(const Checkpoint& a, const Checkpoint& b) {
  std::vector<TensorDifference> out;
  const auto& others = b.manifest().tensors;
  for (const CheckpointManifest::Entry& t : a.manifest().tensors) {
    const auto at = std::ranges::find(others, t.name, &CheckpointManifest::Entry::name);
    if (at == others.end()) {
      out.push_back({t.name, "only in " + quotedPath(a.folder()) + ", " + typeText(t.dtype, t.shape)});
    } else if (at->dtype != t.dtype || at->shape != t.shape) {
      out.push_back({t.name, typeText(t.dtype, t.shape) + " and " + typeText(at->dtype, at->shape)});
    } else {
      DTC_TRY(const auto x, a.source(t).tensor());
      DTC_TRY(const auto y, b.source(*at).tensor());
      if (x == y) continue;
      const double largest = largestDifference(x, y);
      out.push_back({t.name, "max abs difference " + (std::isnan(largest) ? "nan" : significant(largest)),
                     largest, true});
    }
  }
  for (const CheckpointManifest::Entry& t : others)
    if (std::ranges::find(a.manifest().tensors, t.name, &CheckpointManifest::Entry::name) ==
        a.manifest().tensors.end())
      out.push_back({t.name, "only in " + quotedPath(b.folder()) + ", " + typeText(t.dtype, t.shape)});
  return out;
}

Result<int> diff(Environment& env, const CheckpointOptions& o) {
  DTC_TRY(const auto a, chosen(o.folders[0], o.step));
  DTC_TRY(const auto b, chosen(o.folders[1], o.step));
  DTC_TRY(const auto differences, differencesOf(a, b));
  const auto& [first, second] = std::pair(a.manifest(), b.manifest());
  const bool sameRun = first.step == second.step && first.data.position == second.data.position;
  const size_t count = first.tensors.size();
  if (o.json) {
    env.out("{\"steps\": [" + std::to_string(first.step) + ", " + std::to_string(second.step) +
            "], \"positions\": [" + std::to_string(first.data.position) + ", " +
            std::to_string(second.data.position) + "], \"tensors\": " + std::to_string(count) +
            ", \"differ\": [" +
            joined(differences, ", ",
                   [](const TensorDifference& d) {
                     return "{\"name\": " + jsonString(d.name) +
                            ", \"max_abs\": " + (d.typed ? jsonNumber(d.largest) : "null") +
                            ", \"what\": " + jsonString(d.text) + "}";
                   }) +
            "]}\n");
  } else {
    std::string text;
    if (first.step != second.step)
      text += "steps " + std::to_string(first.step) + " and " + std::to_string(second.step) + "\n";
    if (first.data.position != second.data.position)
      text += "positions in the data " + std::to_string(first.data.position) + " and " +
              std::to_string(second.data.position) + "\n";
    for (const TensorDifference& d : differences) text += d.name + ": " + d.text + "\n";
    env.out(text + std::to_string(differences.size()) + " of " + std::to_string(count) + " tensors differ\n");
  }
  return differences.empty() && sameRun ? kExitDone : kExitInput;
}

Result<int> convert(Environment& env, const CheckpointOptions& o) {
  if (!o.out.ends_with(".safetensors") && !o.out.ends_with(".npz"))
    return usageError("convert needs -o FILE.safetensors or -o FILE.npz");
  DTC_TRY(const auto checkpoint, chosen(o.folders[0], o.step));
  std::vector<FileLayout::Entry> entries;
  for (const CheckpointManifest::Entry& t : checkpoint.manifest().tensors)
    entries.push_back({t.name, t.dtype, t.shape});
  if (Status s = checkTensorArchive(o.out, entries); !s) return s.error();
  std::vector<Tensor> tensors;
  for (const CheckpointManifest::Entry& t : checkpoint.manifest().tensors) {
    DTC_TRY(auto value, checkpoint.source(t).tensor());
    tensors.push_back(std::move(value));
  }
  NamedTensors named;
  for (size_t i = 0; i < tensors.size(); ++i)
    named.emplace_back(checkpoint.manifest().tensors[i].name, &tensors[i]);
  if (Status s = writeTensorArchive(o.out, named); !s) return s.error();
  env.err("note: wrote " + std::to_string(named.size()) + " tensors of step " +
          std::to_string(checkpoint.manifest().step) + " to " + quotedPath(o.out) + "\n");
  return kExitDone;
}

struct Action {
  const char* name;
  size_t folders;
  Result<int> (*run)(Environment&, const CheckpointOptions&);
};
constexpr Action kActions[] = {{"ls", 1, list}, {"diff", 2, diff}, {"convert", 1, convert}};

Result<int> runCheckpoint(Environment& env, const CheckpointOptions& o) {
  const auto at = std::ranges::find(kActions, o.action, &Action::name);
  if (at == std::end(kActions))
    return usageError(o.action.empty() ? "missing action: use `dtc checkpoint ls`, `diff` or `convert`"
                                       : unknownWord("action", o.action, {"ls", "diff", "convert"}));
  if (o.folders.size() != at->folders)
    return usageError("`dtc checkpoint " + o.action + "` takes " +
                      (at->folders == 1 ? "one folder" : "two folders") + ", got " +
                      std::to_string(o.folders.size()));
  if (!o.out.empty() && o.action != "convert") return usageError("-o is a flag of `dtc checkpoint convert`");
  if (o.step >= 0 && o.action == "ls")
    return usageError("--step is a flag of `dtc checkpoint convert` and `diff`");
  return at->run(env, o);
}

} // namespace

Verb checkpointVerb() {
  Verb v;
  v.name = "checkpoint";
  v.usage = "ls|diff|convert DIR [DIR] [flags]";
  v.summary = "list, compare or convert checkpoints";
  v.examples =
      "  dtc checkpoint ls DIR                            (steps, tensors, bytes; whether they are sound)\n"
      "  dtc checkpoint diff A B                          (the newest of two folders)\n"
      "  dtc checkpoint diff DIR/step-00000100 DIR/step-00000200\n"
      "  dtc checkpoint convert DIR -o model.safetensors  (also .npz)";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto o = std::make_shared<CheckpointOptions>();
    app.add_option("ACTION", o->action, "ls: list and verify; diff: compare two; convert: write one file")
        ->type_name("ls|diff|convert");
    app.add_option("DIR", o->folders, "a folder of checkpoints, or one checkpoint in it")
        ->type_name("DIR")
        ->expected(0, 2);
    app.add_option("-o", o->out, "convert: the file to write")->type_name("FILE");
    app.add_option("--step", o->step, "diff, convert: the checkpoint after step N (the newest)")
        ->type_name("N")
        ->check(CLI::Range(int64_t(0), INT64_MAX));
    app.add_flag("--json", o->json, "print the report as JSON");
    return [o](Environment& env) { return runCheckpoint(env, *o); };
  };
  return v;
}

} // namespace dtc
